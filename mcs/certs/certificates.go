package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The files of a certificate directory, and the keys of the Secrets.
const (
	CAFile      = "ca.crt"
	CAKeyFile   = "ca.key"
	CertFile    = "tls.crt"
	CertKeyFile = "tls.key"
)

const (
	// lookAgain is how often the place is looked at for renewed or replaced certificates.
	lookAgain = time.Minute
	// lookSoon is how soon it is while there is nothing to show.
	lookSoon = 2 * time.Second
	// lookLimit ends a look that hangs.
	lookLimit = 30 * time.Second
	// warnAhead is how long before its end a certificate that we do not renew is complained about, once each warnAgain.
	warnAhead = 30 * 24 * time.Hour
	warnAgain = 24 * time.Hour
)

// errNone is what a machine meets while there is no certificate yet; it tries again.
var errNone = errors.New("there is no certificate to show yet")

// Certificates keeps the certificate that the server shows, from OpenCertificates or OpenSecret. It makes a CA and a
// certificate of it, and renews both long before they end; the CA's key stays the same, so machines that trust the old
// CA certificate trust what comes after. A certificate that somebody else supplied is used as it is and never written.
// All methods may be called at once.
type Certificates struct {
	place   place
	log     *slog.Logger
	current atomic.Pointer[shown]

	looking sync.Mutex // one look at a time; guards warned
	warned  time.Time
}

// place is where certificates are kept.
type place interface {
	// look makes what is missing, renews what is due and returns what to show. It may return both a certificate and what
	// went wrong beside it; without a certificate, the one before goes on being shown.
	look(ctx context.Context, now time.Time) (*shown, error)
}

// shown is a certificate to show.
type shown struct {
	pair tls.Certificate
	// what it was read from. Its ca is whom a machine has to believe, nil where that is not known; it has no caKey.
	what material
	// from says in a log where it was found.
	from string
	// ours is renewed by us.
	ours bool
}

// newShown makes of a certificate and its key what can be shown.
func newShown(m material, from string, ours bool) (*shown, error) {
	pair, err := tls.X509KeyPair(m.cert, m.key)
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate of %s: %w", from, err)
	}
	m.caKey = nil
	return &shown{pair: pair, what: m, from: from, ours: ours}, nil
}

// TLS is the configuration to serve with; it follows every Refresh.
func (c *Certificates) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			now := c.current.Load()
			if now == nil {
				return nil, errNone
			}
			return &now.pair, nil
		},
	}
}

// Until is when the certificate that is shown ends; the zero time while there is none.
func (c *Certificates) Until() time.Time {
	if now := c.current.Load(); now != nil {
		return now.pair.Leaf.NotAfter
	}
	return time.Time{}
}

// CA are the certificates that a machine has to believe, as PEM; nil where they are not known: there is no certificate
// yet, or it is somebody else's and came without. Nobody may change them.
func (c *Certificates) CA() []byte {
	if now := c.current.Load(); now != nil {
		return now.what.ca
	}
	return nil
}

// Run refreshes until the context ends. A place that has become bad or is away is logged; the last good certificate stays.
func (c *Certificates) Run(ctx context.Context) {
	for {
		pause := time.NewTimer(c.pause())
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case now := <-pause.C:
			limited, cancel := context.WithTimeout(ctx, lookLimit)
			err := c.Refresh(limited, now)
			cancel()
			if err != nil && ctx.Err() == nil {
				c.log.Error("looking after the certificate, will try again", "until", c.Until(), "error", err)
			}
		}
	}
}

func (c *Certificates) pause() time.Duration {
	if c.current.Load() == nil {
		return lookSoon
	}
	return lookAgain
}

// Refresh makes what is missing, renews what is due and takes up what changed.
func (c *Certificates) Refresh(ctx context.Context, now time.Time) error {
	c.looking.Lock()
	defer c.looking.Unlock()
	next, err := c.place.look(ctx, now)
	if next != nil {
		c.show(next)
	}
	c.warn(now)
	return err
}

// show takes up a certificate, and says so where it is another one.
func (c *Certificates) show(next *shown) {
	last := c.current.Swap(next)
	if last != nil && last.pair.Leaf.Equal(next.pair.Leaf) {
		return
	}
	leaf := next.pair.Leaf
	c.log.Info("serving with certificate", "from", next.from, "renewed-by-us", next.ours, "until", leaf.NotAfter,
		"names", leaf.DNSNames, "addresses", leaf.IPAddresses)
	if last != nil && last.what.ca != nil && !sameAuthority(last.what.ca, next.what.ca) {
		c.log.Error("the CA is another one than before: machines with a pointer config made until now refuse this server, give them a new one", "from", next.from)
	}
}

// warn says that a certificate that nobody has renewed ends soon, or has ended.
func (c *Certificates) warn(now time.Time) {
	is := c.current.Load()
	if is == nil || now.Before(is.pair.Leaf.NotAfter.Add(-warnAhead)) || now.Sub(c.warned) < warnAgain && !now.Before(c.warned) {
		return
	}
	c.warned = now
	if now.After(is.pair.Leaf.NotAfter) {
		c.log.Warn("the serving certificate has ended and machines refuse it: replace it", "from", is.from, "ended", is.pair.Leaf.NotAfter)
	} else {
		c.log.Warn("the serving certificate ends soon and was not renewed: replace it", "from", is.from, "until", is.pair.Leaf.NotAfter)
	}
}

// checkNames returns the names that a certificate has to have: the given ones, in order and once, and the loopback's.
func checkNames(given []string) ([]string, error) {
	for _, name := range given {
		if net.ParseIP(name) == nil && (name == "" || strings.ContainsAny(name, ":/ \t\n")) {
			return nil, fmt.Errorf("host name %q is neither a name nor an address: give it without scheme, port and blanks", name)
		}
	}
	names := append(slices.Clone(given), "localhost", "127.0.0.1", "::1")
	slices.Sort(names)
	return slices.Compact(names), nil
}
