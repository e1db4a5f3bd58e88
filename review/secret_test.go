package review

import (
	"strings"
	"testing"
)

func TestOneSecretArgumentOfTheKernelIsHidden(t *testing.T) {
	for arg, want := range map[string]string{
		"quiet":                             "quiet",
		"console=ttyS0,115200n8":            "console=ttyS0,115200n8",
		"luks.token=hunter2":                "luks.token=(hidden, sha256 f52f…)",
		"ignition.config.url=http://u:p@h/": "ignition.config.url=(hidden, sha256 bc9e…)",
	} {
		if got := unless(arg); got != want {
			t.Errorf("%s: got %s, want %s", arg, got, want)
		}
	}
}

func TestMarksOfSecrets(t *testing.T) {
	marked, err := ParseSecrets("/etc/app/*.conf, /etc/vault/\n  vault.service")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"/etc/app/a.conf": true, "/etc/app/a/b.conf": false, "/etc/app/a.txt": false,
		"/etc/vault/a": true, "/etc/vault/a/b": true, "/etc/vault": false, "/etc/vaults/a": false,
		"vault.service": true, "other.service": false,
	} {
		if marked.marks(name) != want {
			t.Errorf("%s: marked %v", name, !want)
		}
	}
	_, err = ParseSecrets("etc/app, /etc/[, secret, /etc/ok")
	if err == nil {
		t.Fatal("patterns that match nothing were taken")
	}
	for _, p := range []string{`"etc/app"`, `"/etc/["`, `"secret"`} {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("lacks %s: %v", p, err)
		}
	}
}

func TestKeysAreNamedByTypeFingerprintAndComment(t *testing.T) {
	const blob = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	const print = "SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA"
	for line, want := range map[string]string{
		"ssh-ed25519 " + blob + " ada@laptop":                      "ssh-ed25519 " + print + " ada@laptop",
		"ssh-ed25519 " + blob:                                      "ssh-ed25519 " + print,
		`from="10.0.0.0/8" ssh-ed25519 ` + blob + " ada":           `from="10.0.0.0/8" ssh-ed25519 ` + print + " ada",
		`environment="TOKEN=hunter2" ssh-ed25519 ` + blob + " ada": "(options hidden) ssh-ed25519 " + print + " ada",
		"hunter2 is not a key":                                     "of no known form (hidden, sha256 5dcb…)",
	} {
		if got := strings.TrimSpace(sshKey(line)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
}
