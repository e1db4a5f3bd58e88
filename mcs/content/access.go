package content

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
)

// Identity is what the server knows about itself.
type Identity struct {
	// Keys sign grants: the first one signs, and all of them verify. All replicas have the same first key.
	Keys [][]byte
	// CA are the certificates that machines have to trust, as PEM; nil if they are not known, because machines trust
	// them already.
	CA []byte
	// Covers reports whether the server's certificate is for a host.
	Covers func(host string) bool
	// URLs are the addresses of this server, for a machine that requested another host than those of the certificate.
	URLs []string
}

// errNoAddress says that the server does not know its own address.
var errNoAddress = errors.New("the config has files that new machines read from the server, and the server's " +
	"certificate does not have the host that the machine requested. Add it to --hostnames")

// Access returns how a machine of a pool reads files from a server, which it reached at a host with an
// optional port. The address of the access changes only with the host, and its grants once an hour.
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

// address returns the URL at which a machine reaches the server. The machine chooses the host of its request, so the
// host counts only if the certificate is for it.
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
