package content

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
)

// Identity is what the server knows about itself.
type Identity struct {
	// Keys verify grants, and the first one, which all replicas share, signs them.
	Keys [][]byte
	// CA is what machines have to trust, as PEM; nil if unknown, because they trust it already.
	CA []byte
	// Covers: the server's certificate is for a host.
	Covers func(host string) bool
	// URLs of this server, for a machine that requested a host without the certificate.
	URLs []string
}

// errNoAddress: the server does not know its own address.
var errNoAddress = errors.New("the config has files that new machines read from the server, and the server's " +
	"certificate does not have the host that the machine requested. Add it to --hostnames")

// Access returns how a machine of a pool reads files from a server, which it reached at a host with an optional port.
// Its address changes only with the host, and its grants once an hour.
func Access(is Identity, host, pool string, now time.Time) (mcs.ContentAccess, error) {
	if len(is.Keys) == 0 {
		return mcs.ContentAccess{}, fmt.Errorf("granting files: %w", mcs.ErrNotSynced)
	}
	server, err := address(is, host)
	if err != nil {
		return mcs.ContentAccess{}, err
	}
	expires := expiry(now)
	return mcs.ContentAccess{
		Server: server, CA: is.CA, Expires: expires,
		Grant: func(name string) string { return sign(is.Keys[0], name, pool, expires) },
	}, nil
}

// sign returns the grant for a machine of a pool and a file.
func sign(key []byte, name, pool string, expires time.Time) string {
	end := strconv.FormatInt(expires.Unix(), 10)
	return end + "." + base64.RawURLEncoding.EncodeToString(mac(key, name, pool, end)) + "." + pool
}

// address is where a machine reaches the server. It chooses the host of its request, which counts only if the
// certificate is for it.
func address(is Identity, host string) (string, error) {
	u, err := url.Parse("https://" + host)
	if err == nil && u.Host == host && u.Hostname() != "" && is.Covers != nil && is.Covers(u.Hostname()) {
		return u.String(), nil
	}
	if len(is.URLs) > 0 {
		return is.URLs[0], nil
	}
	return "", errNoAddress
}

const (
	// between new grants: machines that boot within it get the same ones, and share one response body
	grantStep = time.Hour
	// at least: a machine may need hours from its config to its last file, and Ignition gives up on a file whose grant
	// has expired
	grantLife = 24 * time.Hour
)

// Reasons why a grant is not valid. The texts contain no part of a grant.
var (
	// ErrNoGrant: there is none, or the text is none.
	ErrNoGrant = errors.New("the request needs a grant for the file, which the config of a new machine has")
	// ErrExpired: it was valid.
	ErrExpired = errors.New("the grant for the file has expired: boot the machine again, so that it reads its " +
		"config again")
	// ErrUnknownKey: no key of this server has signed the grant for this file. Another replica may know it.
	ErrUnknownKey = errors.New("this server does not know the key of the grant for the file")
)

// expiry is the end of grants that are made now.
func expiry(now time.Time) time.Time { return now.Truncate(grantStep).Add(grantLife + grantStep) }

// mac authenticates the parts of a grant. None contains a line end: the name and the end are checked by their form, and
// pools are names.
func mac(key []byte, name, pool, end string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("content\n" + name + "\n" + end + "\n" + pool))
	return h.Sum(nil)
}

// Check returns the pool of a grant for a file. The error is ErrNoGrant, ErrExpired or ErrUnknownKey. Any of the keys
// may have signed it.
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
