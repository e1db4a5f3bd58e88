package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"filippo.io/age"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/sops"

	"github.com/bunsen-os/bunsen/mcs/secrets"
)

// decrypters makes functions that decrypt files of SOPS.
type decrypters struct {
	// service is asked for the keys that are allowed; nil if there is none.
	service *sops.KeyServiceClient
	allowed []string
}

// forKeys returns a function that decrypts files of SOPS with age keys, and with the key service until the context
// ends. The error counts the texts that are no keys; it does not show them.
func (d decrypters) forKeys(ctx context.Context, keys [][]byte) (secrets.Decrypt, error) {
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
	with := sops.Keys{Age: identities}
	if d.service != nil {
		with.Service = &sops.Service{
			Ask: d.service.Round(ctx), Allowed: d.allowed,
			AllowedIn: "the flag --key-service-key of machine-config-server",
		}
	}
	decrypt := func(format string, body []byte) ([]byte, error) {
		plain, err := with.Decrypt(format, body)
		if missing := new(sops.MissingKeyError); errors.As(err, &missing) {
			if missing.Asked {
				return nil, fmt.Errorf("%w: %w", secrets.ErrKeyService, err)
			}
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

// decrypters returns what decrypts files with the key service of the flags, if they name one.
func (f keyServiceFlags) decrypters() (decrypters, error) {
	if f.address == "" {
		return decrypters{}, nil
	}
	client, err := sops.NewKeyService(f.address)
	if err != nil {
		return decrypters{}, fmt.Errorf("reading --key-service: %w", err)
	}
	return decrypters{client, f.keys}, nil
}

// check returns all errors in the flags.
func (f keyServiceFlags) check() (bad []error) {
	if _, err := f.decrypters(); err != nil {
		bad = append(bad, err)
	}
	if (f.address == "") != (len(f.keys) == 0) {
		bad = append(bad, errors.New("--key-service and --key-service-key belong together: where the key service is, "+
			"and the keys for which it may be asked"))
	}
	for _, key := range f.keys {
		if err := sops.ParseAllowed(key); err != nil {
			bad = append(bad, fmt.Errorf("reading --key-service-key: %w", err))
		}
	}
	return bad
}
