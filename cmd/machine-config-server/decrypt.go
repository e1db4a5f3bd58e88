package main

import (
	"bytes"
	"errors"
	"fmt"

	"filippo.io/age"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/mcs/secrets"
)

// newDecrypt returns a function that decrypts files of SOPS with age keys. The error counts the texts that are no keys;
// it does not show them.
func newDecrypt(keys [][]byte) (secrets.Decrypt, error) {
	var identities []age.Identity
	invalid := 0
	for _, text := range keys {
		parsed, err := age.ParseIdentities(bytes.NewReader(text))
		if err != nil { // the error may quote the text
			invalid++
			continue
		}
		identities = append(identities, parsed...)
	}
	decrypt := func(format string, body []byte) ([]byte, error) {
		plain, err := sops.Decrypt(format, body, identities...)
		if missing := new(sops.MissingKeyError); errors.As(err, &missing) {
			return nil, fmt.Errorf("%w: %w", secrets.ErrNoKey, err)
		}
		return plain, err
	}
	if invalid > 0 {
		return decrypt, fmt.Errorf("reading the age keys: %d of %d values of Secret %s/%s are no keys: each line is "+
			"a key, AGE-SECRET-KEY-…", invalid, len(keys), v1alpha1.ServerNamespace, v1alpha1.AgeKeysSecret)
	}
	return decrypt, nil
}
