package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcs/secrets"
)

// TestAKeyServiceIsAskedAgainForListedKeysOnly: what may be decrypted later is told apart from what never is.
func TestAKeyServiceIsAskedAgainForListedKeysOnly(t *testing.T) {
	const file = "a: ENC[AES256_GCM,data:x]\nsops:\n  lastmodified: \"2026-01-02T03:04:05Z\"\n  mac: x\n  pgp:\n" +
		"  - fp: A\n    enc: x\n"
	for because, c := range map[string]struct {
		flags keyServiceFlags
		want  error
		says  string
	}{
		"a service that is away": {
			keyServiceFlags{"unix://" + filepath.Join(t.TempDir(), "s"), []string{"pgp A"}},
			secrets.ErrKeyService,
			"it does not answer",
		},
		"a key that is not listed": {
			keyServiceFlags{"unix:///s", []string{"pgp B"}},
			secrets.ErrNoKey,
			`"pgp A", because only its owner decides for which keys it is: if this key is yours, add that text to the ` +
				"flag --key-service-key of machine-config-server",
		},
		"no service": {keyServiceFlags{}, secrets.ErrNoKey, "start a key service"},
	} {
		keys, err := c.flags.decrypters()
		if err != nil {
			t.Fatal(err)
		}
		decrypt, err := keys.forKeys(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decrypt("yaml", []byte(file)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", because, err)
		}
	}
}
