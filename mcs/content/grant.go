package content

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

const (
	// grantStep is how often the server creates new grants. All machines that boot within a step get the same grants,
	// so they share one response body.
	grantStep = time.Hour
	// grantLife is how long a grant is valid at least. A machine may need hours from its config to its last file, and
	// Ignition gives up on a file whose grant has expired.
	grantLife = 24 * time.Hour
)

// Reasons why a grant is not valid. The texts contain no part of a grant.
var (
	// ErrNoGrant says that a request has no grant, or a text that is no grant.
	ErrNoGrant = errors.New("the request needs a grant for the file, which the config of a new machine has")
	// ErrExpired says that a grant was valid.
	ErrExpired = errors.New("the grant for the file has expired: boot the machine again, so that it reads its " +
		"config again")
	// ErrUnknownKey says that no key of this server has signed the grant for this file. Another replica may know the
	// key.
	ErrUnknownKey = errors.New("this server does not know the key of the grant for the file")
)

// expiry returns when the grants of a time end.
func expiry(now time.Time) time.Time { return now.Truncate(grantStep).Add(grantLife + grantStep) }

// sign returns the grant that allows a machine of a pool to read the file with a name.
func sign(key []byte, name, pool string, expires time.Time) string {
	end := strconv.FormatInt(expires.Unix(), 10)
	return end + "." + base64.RawURLEncoding.EncodeToString(mac(key, name, pool, end)) + "." + pool
}

// mac authenticates the parts of a grant. No part contains a line end: the name and the end are checked by their form,
// and pools are names.
func mac(key []byte, name, pool, end string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("content\n" + name + "\n" + end + "\n" + pool))
	return h.Sum(nil)
}

// Check returns the pool of a grant for the file with a name. The error is ErrNoGrant, ErrExpired or ErrUnknownKey. Any
// of the keys may have signed the grant.
func Check(keys [][]byte, grant, name string, now time.Time) (pool string, err error) {
	const parts, longest = 3, 512
	list := strings.SplitN(grant, ".", parts)
	if len(list) != parts || len(grant) > longest || strings.ContainsAny(grant, "\n\r") {
		return "", ErrNoGrant
	}
	seconds, err := strconv.ParseInt(list[0], 10, 64)
	sum, badSum := base64.RawURLEncoding.Strict().DecodeString(list[1])
	if err != nil || badSum != nil || seconds <= 0 || strconv.FormatInt(seconds, 10) != list[0] {
		return "", ErrNoGrant
	}
	switch end := time.Unix(seconds, 0); {
	case !now.Before(end):
		return "", ErrExpired
	case end.After(expiry(now).Add(grantStep)): // no server signs such a grant, whatever its clock
		return "", ErrNoGrant
	}
	for _, key := range keys {
		if hmac.Equal(sum, mac(key, name, list[2], list[0])) {
			return list[2], nil
		}
	}
	return "", ErrUnknownKey
}
