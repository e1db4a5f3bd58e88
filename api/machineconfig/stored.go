package machineconfig

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// storedPrefix precedes the hash in the address of a file of the content store. No server has this address, because the
// domain .invalid never resolves. The server and the daemon replace it.
const storedPrefix = "https://content.bunsen.invalid/"

var storedHash = regexp.MustCompile(`^sha512-[0-9a-f]{128}$`)

// IsStoredHash reports whether a text is the hash of a file of the content store: sha512-HEX in lower case.
func IsStoredHash(hash string) bool { return storedHash.MatchString(hash) }

// StoredSource returns the address in configs of the file of the content store with a hash.
func StoredSource(hash string) string { return storedPrefix + hash }

// StoredHash returns the hash of the file of the content store that an address names, and whether the address names
// one.
func StoredHash(source string) (hash string, ok bool) {
	hash, ok = strings.CutPrefix(source, storedPrefix)
	if !ok || !IsStoredHash(hash) {
		return "", false
	}
	return hash, true
}

// isStoreHost reports whether an address is in the domain of the content store, in any spelling.
func isStoreHost(u *url.URL) bool {
	return strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), "content.bunsen.invalid")
}

// checkStored returns why a resource whose address is in the domain of the content store names no file of the content
// store. The hash may also be a SHA-256, which WithHashes writes on machines: it decides the contents as well.
func checkStored(r ign.Resource) error {
	hash, ok := StoredHash(*r.Source)
	switch {
	case !ok:
		return errors.New("its source is in the domain of the content store, but it is not " + storedPrefix +
			"sha512-HEX")
	case r.Compression != nil && *r.Compression != "":
		return errors.New("its source is in the content store, which has no compressed files: remove `compression`")
	case r.Verification.Hash == nil || *r.Verification.Hash != hash && !strings.HasPrefix(*r.Verification.Hash,
		"sha256-"):
		return fmt.Errorf("its source is in the content store, so its verification hash must be %s", hash)
	}
	return nil
}

// shownStored returns the text of messages for an address in the content store.
func shownStored(hash string) string { return "the content store, " + hash[:len("sha512-")+12] + "…" }
