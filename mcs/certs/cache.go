package certs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// remember keeps what is shown on disk, for a start without an API server. The CA's key stays in its Secret.
func (s *secrets) remember(out *shown) error {
	if out == nil || s.Cache == "" {
		return nil
	}
	at := directory{dir: s.Cache}
	err := os.MkdirAll(at.dir, 0o700)
	if err == nil {
		err = at.write(out.what)
	}
	if err == nil && out.what.ca == nil {
		if err = os.Remove(at.path(CAFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("keeping the certificate for a start without API server: %w", err)
	}
	return nil
}

// recall shows what was remembered. Until the API server is there it is nobody's to renew.
func (s *secrets) recall(c *Certificates) {
	if s.Cache == "" {
		return
	}
	out, err := directory{dir: s.Cache}.show(false)
	if err != nil {
		s.log.Warn("there is no certificate to show until the API server is there", "cache", s.Cache, "error", err)
		return
	}
	c.show(out)
}

// inherit knows the CA that an earlier server made in the cache's directory, so that its machines need no new pointer
// config when the Secret is made.
func (s *secrets) inherit() {
	if s.Cache == "" {
		return
	}
	m, err := directory{dir: s.Cache}.material()
	if err != nil || m.ca == nil || m.caKey == nil {
		return
	}
	key, err := parseKey(m.caKey)
	if err != nil {
		return
	}
	if cert, err := parseCertificate(m.ca); err == nil && belongs(key, cert) {
		s.known = material{ca: m.ca, caKey: m.caKey}
	}
}
