package sops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// maxDataKey bounds the decrypted data key, or a part of it, in bytes.
const maxDataKey = 1 << 10

// ParseIdentities reads the age identities of a file: one a line, with comments. Its errors do not contain them.
func ParseIdentities(text []byte) ([]age.Identity, error) {
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("reading age keys: a line is no age key; a key begins with AGE-SECRET-KEY-1, and " +
			"comments with #")
	}
	return ids, nil
}

// Recipient returns the public key of an identity, or "".
func Recipient(id age.Identity) string {
	switch id := id.(type) {
	case *age.X25519Identity:
		return id.Recipient().String()
	case *age.HybridIdentity:
		return id.Recipient().String()
	}
	return ""
}

// MissingKeyError says that no given identity can decrypt a file.
type MissingKeyError struct {
	// Recipients of the file.
	Recipients []string
	// Given are the public keys of the given identities.
	Given []string
	// Groups have a part of the data key each, Needed of them are needed, and Opened were decrypted.
	Groups, Needed, Opened int
}

// Error names the recipients, and what was given instead.
func (e *MissingKeyError) Error() string {
	given := "Bunsen has no age key"
	if len(e.Given) > 0 {
		given = "Bunsen has the age keys of " + strings.Join(e.Given, ", ")
	}
	parts := ""
	if e.Groups > 1 {
		parts = fmt.Sprintf(" (%d of its %d key groups are needed, and %d could be decrypted)", e.Needed, e.Groups,
			e.Opened)
	}
	return fmt.Sprintf("the file is encrypted for %s, and %s%s; add the age key of one of them, or encrypt the file "+
		"for another key", strings.Join(e.Recipients, ", "), given, parts)
}

// dataKey decrypts the key of all values.
func dataKey(m document.Metadata, identities []age.Identity) ([]byte, error) {
	var parts [][]byte
	var damaged []error
	for _, group := range m.Groups {
		part, err := openGroup(group, identities)
		damaged = append(damaged, err)
		if part != nil {
			parts = append(parts, part)
		}
	}
	if len(parts) < m.Threshold {
		if err := errors.Join(damaged...); err != nil {
			return nil, err
		}
		missing := &MissingKeyError{
			Recipients: m.Recipients(), Groups: len(m.Groups), Needed: m.Threshold,
			Opened: len(parts),
		}
		for _, id := range identities {
			if r := Recipient(id); r != "" {
				missing.Given = append(missing.Given, r)
			}
		}
		return nil, missing
	}
	if len(m.Groups) == 1 {
		return parts[0], nil
	}
	return combine(parts)
}

// openGroup decrypts the part of a group with the first identity that can, or returns nil.
func openGroup(group []document.Recipient, identities []age.Identity) ([]byte, error) {
	var damaged []error
	for _, r := range group {
		if r.Kind != "age" || len(identities) == 0 {
			continue
		}
		in, err := age.Decrypt(armor.NewReader(strings.NewReader(r.Encrypted)), identities...)
		var none *age.NoIdentityMatchError
		if errors.As(err, &none) {
			continue
		}
		if err == nil {
			var part []byte
			if part, err = io.ReadAll(io.LimitReader(in, maxDataKey)); err == nil {
				return part, nil
			}
		}
		damaged = append(damaged, fmt.Errorf("the data key for %s is damaged: %w", r.Name, err))
	}
	return nil, errors.Join(damaged...)
}

// newDataKey creates a data key, and encrypts it for the recipients of the metadata.
func (w Writer) newDataKey(m *document.Metadata) ([]byte, error) {
	key := make([]byte, 32)
	if _, err := io.ReadFull(w.Random, key); err != nil {
		return nil, err
	}
	parts := [][]byte{key}
	if len(m.Groups) > 1 {
		var err error
		if parts, err = divide(w.Random, key, len(m.Groups), m.Threshold); err != nil {
			return nil, err
		}
	}
	var problems []error
	for i, group := range m.Groups {
		for j := range group {
			problems = append(problems, wrap(&group[j], parts[i]))
		}
	}
	return key, errors.Join(problems...)
}

// wrap encrypts a part of the data key for a recipient.
func wrap(r *document.Recipient, part []byte) error {
	if r.Kind != "age" {
		return fmt.Errorf("the file is also for %s, and Bunsen writes keys of age only; use the program sops for it", r)
	}
	to, err := age.ParseRecipients(strings.NewReader(r.Name))
	if err != nil {
		return fmt.Errorf("%q is no public key of age; it begins with age1", r.Name)
	}
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, to...)
	if err != nil {
		return fmt.Errorf("encrypting for %s: %w", r.Name, err)
	}
	if _, err := w.Write(part); err != nil {
		return err
	}
	if err := errors.Join(w.Close(), text.Close()); err != nil {
		return err
	}
	r.Encrypted = out.String()
	return nil
}
