package secretmask_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/secretmask"
)

func TestMarksOfSecrets(t *testing.T) {
	marked, err := secretmask.ParsePaths("/etc/app/*.conf, /etc/vault/\n  vault.service, " +
		"/etc/systemd/system/app.service, /etc/systemd/system/db.service.d/*.conf, /etc/systemd/system/web@.service.d/")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"/etc/app/a.conf": true, "/etc/app/a/b.conf": false, "/etc/app/a.txt": false,
		"/etc/vault/a": true, "/etc/vault/a/b": true, "/etc/vault": false, "/etc/vaults/a": false,
		"vault.service": true, "other.service": false, "/etc/systemd/system/vault.service": true,
		"/etc/systemd/system/other.service":          false,
		"/etc/systemd/system/vault.service.d/a.conf": true, "vault.service.d/a.conf": true,
		"/etc/systemd/system/vault.service.wants/a.service": false, "/usr/lib/systemd/system/vault.service": false,
		"app.service": true, "/etc/systemd/system/app.service": true, "app.service.d/a.conf": false,
		"db.service": false, "db.service.d/a.conf": true, "/etc/systemd/system/db.service.d/a.conf": true,
		"web@.service.d/a": true,
	} {
		if marked.Match(name) != want {
			t.Errorf("%s: marked %v", name, !want)
		}
	}
	_, err = secretmask.ParsePaths("etc/app, /etc/[, secret, /etc/ok")
	if err == nil {
		t.Fatal("patterns that match nothing were taken")
	}
	for _, p := range []string{`"etc/app"`, `"/etc/["`, `"secret"`} {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("lacks %s: %v", p, err)
		}
	}
}
