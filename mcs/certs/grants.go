package certs

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"log/slog"
)

const (
	// grantKeySize is the size in bytes of a key for grants, and grantKeyInfo separates it from other uses of the same
	// key.
	grantKeySize = sha256.Size
	grantKeyInfo = "bunsen machine-config-server content grants 1"
	// maxGrantKeys is how many keys the server remembers. A new certificate has a new key, and machines still have
	// grants of the old one.
	maxGrantKeys = 4
)

// GrantKeys returns keys that authenticate grants: that of the current certificate, which all replicas share, and after
// it those of earlier certificates of this process. It returns none while there is no certificate.
func (c *Certificates) GrantKeys() [][]byte {
	if now := c.current.Load(); now != nil {
		return now.grantKeys
	}
	return nil
}

// Covers reports whether the current certificate is for a host.
func (c *Certificates) Covers(host string) bool {
	now := c.current.Load()
	return now != nil && now.pair.Leaf.VerifyHostname(host) == nil
}

// withGrantKeys derives the key of a certificate, and keeps those of the certificate before it, which may be nil.
func (s *servingCert) withGrantKeys(last *servingCert, log *slog.Logger) {
	private, err := x509.MarshalPKCS8PrivateKey(s.pair.PrivateKey)
	var key []byte
	if err == nil {
		key, err = hkdf.Key(sha256.New, private, nil, grantKeyInfo, grantKeySize)
	}
	if err != nil {
		log.Error("new machines get no files of the content store: the key of the certificate cannot be used", "from",
			s.from, "error", err)
	} else {
		s.grantKeys = [][]byte{key}
	}
	if last == nil {
		return
	}
	for _, earlier := range last.grantKeys {
		if string(earlier) != string(key) && len(s.grantKeys) < maxGrantKeys {
			s.grantKeys = append(s.grantKeys, earlier)
		}
	}
}
