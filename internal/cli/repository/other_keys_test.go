package repository_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/cli/repository"
)

// TestAFileForOtherKeysNamesTheCommandOfSops: bunsen writes keys of age only, and changes no other file.
func TestAFileForOtherKeysNamesTheCommandOfSops(t *testing.T) {
	dir := t.TempDir()
	file, key := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "mine.agekey")
	const text = "a: ENC[AES256_GCM,data:x]\nsops:\n  lastmodified: \"2026-01-02T03:04:05Z\"\n  mac: x\n  pgp:\n" +
		"  - fp: A\n    enc: x\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := repository.Keygen(io.Discard, key, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	o := repository.SecretOptions{Keys: []string{key}}
	for want, err := range map[string]error{
		"is also for pgp A, and Bunsen writes keys of age only: type `sops edit " + file + "`":      o.Edit(t.Context(), file),
		"is also for pgp A, and Bunsen writes keys of age only: type `sops rotate -i " + file + "`": o.Rotate(io.Discard, []string{file}),
		"or type `sops decrypt " + file + "`":                                                       o.Decrypt(io.Discard, file),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if is, err := os.ReadFile(file); err != nil || string(is) != text {
		t.Errorf("the file changed: %q, %v", is, err)
	}
	for because, c := range map[string]struct {
		service repository.KeyService
		want    string
	}{
		"no keys":    {repository.KeyService{Address: "unix:///s"}, "belong together"},
		"no service": {repository.KeyService{Keys: []string{"pgp A"}}, "belong together"},
		"no key":     {repository.KeyService{Address: "unix:///s", Keys: []string{"A"}}, `"A" is no key`},
		"no address": {repository.KeyService{Address: "s", Keys: []string{"pgp A"}}, `not at "s"`},
	} {
		if _, err := repository.Decrypter(t.Context(), []string{key}, c.service); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", because, err)
		}
	}
	decrypt, err := repository.Decrypter(t.Context(), []string{key}, repository.KeyService{
		Address: "unix://" + filepath.Join(dir, "none"), Keys: []string{"pgp A"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decrypt("yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "it does not answer") {
		t.Errorf("a service that is away: %v", err)
	}
}
