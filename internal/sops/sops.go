package sops

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"time"

	"filippo.io/age"

	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// version is that of the SOPS whose files this package writes.
const version = "3.13.3"

// Decrypt decrypts a file with age keys alone, as Keys.Decrypt does.
func Decrypt(format string, body []byte, identities ...age.Identity) ([]byte, error) {
	return Keys{Age: identities}.Decrypt(format, body)
}

// Decrypt decrypts a file in one of the formats yaml, json, dotenv and binary. Without a matching key, the error is a
// MissingKeyError. No error contains a value.
func (k Keys) Decrypt(format string, body []byte) (out []byte, err error) {
	defer document.Recover(&err)
	d, err := document.Parse(document.Format(format), body)
	if err != nil {
		return nil, fmt.Errorf("decrypting a file of SOPS: %w", err)
	}
	if _, err = k.decrypt(d); err != nil {
		return nil, fmt.Errorf("decrypting a file of SOPS: %w", err)
	}
	return d.Plain()
}

// decrypt works in place, and returns the data key.
func (k Keys) decrypt(d document.Document) ([]byte, error) {
	key, err := k.dataKey(d.Metadata)
	if err != nil {
		return nil, err
	}
	return key, openValues(d, key)
}

// openValues works in place, and checks the authentication code of the values.
func openValues(d document.Document, key []byte) error {
	mac := newMAC(d.Metadata.Rules)
	err := d.Walk(func(l document.Leaf) (any, error) {
		v, err := openLeaf(l, key)
		if err != nil {
			return nil, fmt.Errorf("the value of %s: %w", l.Name, err)
		}
		return v, mac.add(v, l.Encrypt)
	})
	if err != nil {
		return err
	}
	stored, err := open(d.Metadata.MAC, key, d.Metadata.LastModified.Format(time.RFC3339))
	if err != nil {
		return fmt.Errorf("the message authentication code: %w", err)
	}
	text, _ := stored.(string)
	if subtle.ConstantTimeCompare([]byte(text), []byte(mac.sum())) != 1 {
		return errors.New("the message authentication code does not match: a user or a merge changed values " +
			"without the key. Restore the file, and change it with `bunsen secret edit`")
	}
	return nil
}

// openLeaf decrypts a leaf if the rules encrypt it.
func openLeaf(l document.Leaf, key []byte) (any, error) {
	if !l.Encrypt {
		return l.Value, nil
	}
	if c, ok := l.Value.(document.Comment); ok {
		v, err := open(c.Text, key, l.AdditionalData())
		if err != nil { // old versions of SOPS did not encrypt comments
			return c, nil
		}
		return v, nil
	}
	text, ok := l.Value.(string)
	if !ok {
		return nil, errors.New("it is in clear text, and the rules of the file encrypt it")
	}
	return open(text, key, l.AdditionalData())
}

// mac is the message authentication code of a file's values.
type mac struct {
	hash.Hash
	rules document.Rules
}

func newMAC(rules document.Rules) mac {
	m := mac{sha512.New(), rules}
	if rules.MACOnlyEncrypted {
		start := sha256.Sum256([]byte("sops")) // so that the code differs from that of a file without this setting
		m.Write(start[:])
	}
	return m
}

func (m mac) add(v any, encrypted bool) error {
	if _, isComment := v.(document.Comment); isComment || m.rules.MACOnlyEncrypted && !encrypted {
		return nil
	}
	text, err := plainText(v)
	m.Write(text)
	return err
}

func (m mac) sum() string { return fmt.Sprintf("%X", m.Sum(nil)) }
