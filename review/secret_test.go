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
		"ignition.config.url=http://u:p@h/": "ignition.config.url=http://u:(hidden, sha256 148d…)@h/",
	} {
		if got := masked(arg); got != want {
			t.Errorf("%s: got %s, want %s", arg, got, want)
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
