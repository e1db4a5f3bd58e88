package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The format of private keys is SEC1 and not PKCS8, because the API server refuses a PKCS8 key for ServiceAccount
// tokens.
const (
	keyBlock  = "EC PRIVATE KEY"
	certBlock = "CERTIFICATE"
)

// EnsureSigningKey creates the key that signs ServiceAccount tokens, if this key does not exist. The key does not
// expire, because a new key would invalidate every token in the cluster.
func EnsureSigningKey(path string) error {
	_, err := readKey(path)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the token signing key: %w", err)
	}
	key, err := newKey()
	if err != nil {
		return fmt.Errorf("creating the token signing key: %w", err)
	}
	return writeKey(path, key)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	der, err := readBlock(path, keyBlock)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func readCert(path string) (*x509.Certificate, error) {
	der, err := readBlock(path, certBlock)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

func readBlock(path, kind string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s holds no PEM block %q", path, kind)
	}
	return block.Bytes, nil
}

// writePair writes the key first, so that there is no certificate without its key.
func writePair(keyPath string, key *ecdsa.PrivateKey, certPath string, der []byte) error {
	if err := writeKey(keyPath, key); err != nil {
		return err
	}
	return writeFile(certPath, pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: der}))
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}))
}

// writeFile replaces a file atomically. Its mode is 0600 from the first byte.
func writeFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
