package sops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"filippo.io/age"

	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// Policy says for whom a file is encrypted, and which of its values.
type Policy struct {
	// of public keys; each can decrypt one part of the data key if there are several
	Groups [][]string
	// Threshold is how many groups decrypt the file together; 0 is all.
	Threshold int
	Rules     document.Rules
}

func (p Policy) metadata() (document.Metadata, error) {
	rules, err := p.Rules.Compile()
	m := document.Metadata{Threshold: p.Threshold, Rules: rules, Version: version}
	for _, names := range p.Groups {
		var group []document.Recipient
		for _, name := range names {
			group = append(group, document.Recipient{Kind: "age", Name: name})
		}
		m.Groups = append(m.Groups, group)
		if len(group) == 0 {
			err = errors.Join(err, errors.New("a key group has no public key"))
		}
	}
	if len(m.Groups) == 0 {
		err = errors.Join(err, errors.New("it has no public key to encrypt for"))
	}
	if m.Threshold == 0 {
		m.Threshold = len(m.Groups)
	}
	return m, err
}

// Writer encrypts files.
type Writer struct {
	// bytes that no attacker can predict
	Random io.Reader
	// Now becomes the time of a file's last change.
	Now time.Time
}

// Encrypt encrypts a file with a new data key.
func (w Writer) Encrypt(format string, body []byte, p Policy) (out []byte, err error) {
	defer document.Recover(&err)
	d, err := document.ParsePlain(document.Format(format), body)
	if err != nil {
		return nil, fmt.Errorf("encrypting a file: %w", err)
	}
	if d.Metadata, err = p.metadata(); err != nil {
		return nil, fmt.Errorf("encrypting a file: %w", err)
	}
	key, err := w.newDataKey(&d.Metadata)
	if err != nil {
		return nil, fmt.Errorf("encrypting a file: %w", err)
	}
	return w.encrypt(d, key, nil)
}

// previous maps the places of values to their ciphertexts.
type previous map[string]ciphertext

type ciphertext struct {
	plain any
	text  string
}

// encrypt encrypts the values of a document in place, and writes it. A value that did not change keeps its ciphertext.
// A file that would not decrypt to what was read is refused.
func (w Writer) encrypt(d document.Document, key []byte, before previous) ([]byte, error) {
	want, err := d.Plain()
	if err != nil {
		return nil, fmt.Errorf("encrypting a file: %w", err)
	}
	code := newMAC(d.Metadata.Rules)
	err = d.Walk(func(l document.Leaf) (any, error) {
		if err := code.add(l.Value, l.Encrypt); err != nil || !l.Encrypt {
			return l.Value, err
		}
		if old, ok := before[l.Name+"\x00"+l.AdditionalData()]; ok && reflect.DeepEqual(old.plain, l.Value) {
			return old.text, nil
		}
		return w.seal(l.Value, key, l.AdditionalData())
	})
	if err != nil {
		return nil, fmt.Errorf("encrypting a file: %w", err)
	}
	d.Metadata.LastModified, d.Metadata.Version = w.Now.UTC().Truncate(time.Second), version
	if d.Metadata.MAC, err = w.seal(code.sum(), key, d.Metadata.LastModified.Format(time.RFC3339)); err != nil {
		return nil, err
	}
	out, err := d.Encrypted()
	if err != nil {
		return nil, err
	}
	back, err := document.Parse(d.Format, out)
	if err == nil {
		err = openValues(back, key)
	}
	if err != nil {
		return nil, fmt.Errorf("encrypting a file: it could not be decrypted again; encrypt it as binary: %w", err)
	}
	if got, err := back.Plain(); err != nil || !bytes.Equal(got, want) {
		return nil, errors.New("encrypting a file: SOPS would lose a part of it; encrypt it as binary")
	}
	return out, nil
}

// Replace encrypts new contents of an encrypted file with its own data key, recipients and rules. Values that did not
// change keep their ciphertexts, so that a difference shows which keys changed.
func (w Writer) Replace(format string, encrypted, contents []byte, identities ...age.Identity) (out []byte, err error) {
	defer document.Recover(&err)
	old, err := document.Parse(document.Format(format), encrypted)
	if err != nil {
		return nil, fmt.Errorf("changing a file of SOPS: %w", err)
	}
	before := previous{}
	var texts []any // what is stored, in the order of the leaves
	_ = old.Walk(func(l document.Leaf) (any, error) {
		texts = append(texts, l.Value)
		return l.Value, nil
	})
	key, err := Keys{Age: identities}.decrypt(old)
	if err != nil {
		return nil, fmt.Errorf("changing a file of SOPS: %w", err)
	}
	_ = old.Walk(func(l document.Leaf) (any, error) { // it has been walked before
		text, ok := texts[0].(string)
		if texts = texts[1:]; ok && l.Encrypt {
			before[l.Name+"\x00"+l.AdditionalData()] = ciphertext{l.Value, text}
		}
		return l.Value, nil
	})
	d, err := document.ParsePlain(document.Format(format), contents)
	if err != nil {
		return nil, fmt.Errorf("changing a file of SOPS: %w", err)
	}
	if err := onlyAge(old.Metadata); err != nil {
		return nil, fmt.Errorf("changing a file of SOPS: %w", err)
	}
	d.Metadata = old.Metadata
	return w.encrypt(d, key, before)
}

// onlyAge refuses files with recipients that Bunsen cannot write.
func onlyAge(m document.Metadata) error {
	for _, g := range m.Groups {
		for _, r := range g {
			if r.Kind != "age" {
				return fmt.Errorf(
					"the file is also for %s, and Bunsen writes keys of age only; use `sops edit`, `sops "+
						"rotate -i` or `sops updatekeys` with the file", r)
			}
		}
	}
	return nil
}

// Rotate encrypts a file with a new data key, for the recipients of a policy. The rules of the file stay.
func (w Writer) Rotate(format string, encrypted []byte, p Policy, identities ...age.Identity) (out []byte, err error) {
	defer document.Recover(&err)
	d, err := document.Parse(document.Format(format), encrypted)
	if err != nil {
		return nil, fmt.Errorf("rotating the data key: %w", err)
	}
	if err = onlyAge(d.Metadata); err != nil {
		return nil, fmt.Errorf("rotating the data key: %w", err)
	}
	if _, err = (Keys{Age: identities}).decrypt(d); err != nil {
		return nil, fmt.Errorf("rotating the data key: %w", err)
	}
	p.Rules = d.Metadata.Rules
	if d.Metadata, err = p.metadata(); err != nil {
		return nil, fmt.Errorf("rotating the data key: %w", err)
	}
	key, err := w.newDataKey(&d.Metadata)
	if err != nil {
		return nil, fmt.Errorf("rotating the data key: %w", err)
	}
	return w.encrypt(d, key, nil)
}
