package certs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// writeCache caches the current certificate on disk, for a start without an API server. writeCache does not write the
// CA's key, which stays in its Secret.
func (s *secretStore) writeCache(out *servingCert) error {
	if out == nil || s.Cache == "" {
		return nil
	}
	at := dirStore{dir: s.Cache}
	err := os.MkdirAll(at.dir, 0o700)
	if err == nil {
		err = at.write(out.material)
	}
	if err == nil && out.material.ca == nil {
		if err = os.Remove(at.path(CAFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("caching the certificate: %w", err)
	}
	return nil
}

// readCache reads the cached certificate. The server renews this certificate only after the API server has become
// reachable.
func (s *secretStore) readCache(c *Certificates) {
	if s.Cache == "" {
		return
	}
	out, err := dirStore{dir: s.Cache}.servingCert(false)
	if err != nil {
		s.log.Warn("there is no certificate until the API server is reachable", "cache", s.Cache, "error", err)
		return
	}
	c.set(out)
}

// adoptCachedCA reads the CA that an earlier server created in the cache directory, so that its machines need no new
// pointer config when the Secret is created.
func (s *secretStore) adoptCachedCA() {
	if s.Cache == "" {
		return
	}
	m, err := dirStore{dir: s.Cache}.material()
	if err != nil || m.ca == nil || m.caKey == nil {
		return
	}
	key, err := parseKey(m.caKey)
	if err != nil {
		return
	}
	if cert, err := parseCertificate(m.ca); err == nil && keyMatches(key, cert) {
		s.knownCA = material{ca: m.ca, caKey: m.caKey}
	}
}
