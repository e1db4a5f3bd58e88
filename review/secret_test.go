package review

import (
	"strings"
	"testing"
)

func TestWhatLooksSecret(t *testing.T) {
	for sentence, c := range map[string]struct {
		path, content string
		want          bool
	}{
		"a time server":                      {"/etc/chrony.conf", "server ntp1.example.com iburst\nkeyfile /etc/chrony.keys\n", false},
		"sshd's settings":                    {"/etc/ssh/sshd_config.d/10.conf", "PasswordAuthentication no\nPermitRootLogin prohibit-password\n", false},
		"kubelet's settings":                 {"/etc/kubernetes/kubelet.conf", "authentication:\n  webhook:\n    enabled: true\nserverTLSBootstrap: true\nmaxPods: 500\n", false},
		"where a token is":                   {"/etc/app.conf", "token: /etc/app/tok\nsecret = ${SECRET}\npassword=%d\n", false},
		"whether there are tokens":           {"/etc/app.conf", "automountServiceAccountToken: false\ntoken = 0\n", false},
		"a unit's reference to a secret":     {"", "[Service]\nLoadCredential=db:/etc/app/db\nEnvironmentFile=/etc/app/env\n", false},
		"a public key":                       {"/etc/pki/ca.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n", false},
		"an address":                         {"/etc/registries.conf", "location = \"https://mirror.example.com:5000/x\"\n", false},
		"a mail address behind a slash":      {"/etc/app.conf", "see https://example.com/a:b@c\n", false},
		"a private key":                      {"/etc/app/blob", "-----BEGIN EC PRIVATE KEY-----\n", true},
		"a PGP private key":                  {"/etc/app/blob", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n", true},
		"a password in a file of settings":   {"/etc/app.conf", "user=app\npassword=hunter2\n", true},
		"a password in YAML":                 {"/etc/app.yaml", "db:\n  bindPassword: hunter2\n", true},
		"a password in JSON":                 {"/etc/app.json", `{"clientSecret": "hunter2"}`, true},
		"a password in a unit's environment": {"", "[Service]\nEnvironment=\"DB_PASSWORD=hunter2\"\n", true},
		"a token as an option":               {"", "ExecStart=/usr/bin/app --token hunter2\n", true},
		"a token with =":                     {"", "ExecStart=/usr/bin/app --api-key=hunter2\n", true},
		"a token of a git host":              {"/etc/x", "machine ghp_0123456789abcdef\n", true},
		"a web token":                        {"/etc/x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln", true},
		"a password in an address":           {"/etc/x", "proxy=http://user:hunter2@proxy:3128\n", true},
		"a hash of a password":               {"/etc/x", "core:$y$j9T$salt$hunter2:1::::::\n", true},
		"a kubeconfig by its content":        {"/etc/k", "users:\n- user:\n    client-key-data: aHVudGVyMg==\n", true},
		"a container tool's log-ins":         {"/etc/c", `{"auths": {"quay.io": {"auth": "aHVudGVyMg=="}}}`, true},
		"a header":                           {"/etc/c", "Authorization: Basic aHVudGVyMg==\n", true},
		"a wireguard key":                    {"/etc/wg0.conf", "[Interface]\nPrivateKey = aHVudGVyMg==\n", true},
		"a wireless key":                     {"/etc/wpa.conf", "psk=hunter2hunter2\n", true},
		"a network connection":               {"/etc/NetworkManager/system-connections/a.nmconnection", "x", true},
		"a key by its name":                  {"/etc/pki/tls/host.key", "x", true},
		"a binary with nothing in it":        {"/usr/local/bin/app", "\x7fELF\x00\x01", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := secret(c.path, []byte(c.content)); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

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
