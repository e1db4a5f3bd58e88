package secret_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/policy/secret"
)

func TestMarksOfSecrets(t *testing.T) {
	marked, err := secret.ParsePaths("/etc/app/*.conf, /etc/vault/\n  vault.service")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"/etc/app/a.conf": true, "/etc/app/a/b.conf": false, "/etc/app/a.txt": false,
		"/etc/vault/a": true, "/etc/vault/a/b": true, "/etc/vault": false, "/etc/vaults/a": false,
		"vault.service": true, "other.service": false,
	} {
		if marked.Match(name) != want {
			t.Errorf("%s: marked %v", name, !want)
		}
	}
	_, err = secret.ParsePaths("etc/app, /etc/[, secret, /etc/ok")
	if err == nil {
		t.Fatal("patterns that match nothing were taken")
	}
	for _, p := range []string{`"etc/app"`, `"/etc/["`, `"secret"`} {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("lacks %s: %v", p, err)
		}
	}
}
