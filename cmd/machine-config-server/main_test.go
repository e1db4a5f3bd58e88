package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kubeconfig of an API server that is away.
func kubeconfig(t *testing.T) string {
	t.Helper()
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],` +
		`"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"users":[{"name":"u","user":{}}]}`
	return write(t, "kubeconfig", text)
}

// write makes a file in a folder of its own.
func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestHelpShowsWhatToType(t *testing.T) {
	var out bytes.Buffer
	cmd := command()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"--kubeconfig", `on all addresses of this host (default ":22623")`,
		"Access:\n      --open", "curl --cacert", "--from-git URL", `(default "healthy")`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
	for _, g := range (&flags{}).groups() {
		for line := range strings.Lines(g.flags.FlagUsages()) {
			if !strings.Contains(out.String(), line) {
				t.Errorf("the help lacks %q", line)
			}
		}
	}
}

// Each mistake of a command line is one line that says what to do instead.
func TestFlagsThatCannotBeMeant(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--kubeconfig a --from-dir b --open", []string{"--from-dir and --kubeconfig cannot be combined: configs come from a cluster, a directory or a repository"}},
		{"--from-git a --from-dir b --cache-dir c --open", []string{"--from-dir and --from-git cannot be combined: configs come from a cluster, a directory or a repository"}},
		{"--from-dir a", []string{"no client could read a config: set --tokens-file, --client-ca, or --open to serve every client"}},
		{"--from-git a --open", []string{"--from-git needs --cache-dir: the server stores the commits there"}},
		{"--from-dir a --tokens-file b", []string{"--tokens-file needs --cache-dir: the server counts the uses of tokens there"}},
		{"--tokens-file a --cache-dir b", []string{"--tokens-file is for a server without a cluster; in a cluster, create tokens with: bunsen token create"}},
		{"--ref main", []string{"--ref needs a repository: set --from-git"}},
		{"--from-dir a --open --interval 5m --os-image x@sha256:0000000000000000000000000000000000000000000000000000000000000000", []string{"--interval needs a repository: set --from-git", "--os-image needs a repository: set --from-git"}},
		{"--from-git a --cache-dir b --open --os-image quay.io/example/os:1", []string{`--os-image: "quay.io/example/os:1" names no digest, so nodes with the same config could run different images: write quay.io/example/os:1@sha256:…, as ` + "`bunsen hash --image IMAGE`" + ` does`}},
		{"--from-dir a --open --serve newest", []string{"--serve needs a cluster, because there are no rollouts without one: remove it"}},
		{"--from-dir a --open --join-server https://a:6443", []string{"--join-server needs a cluster, where the server creates bootstrap tokens: remove it, or --from-dir and --from-git"}},
		{"--from-dir a --open --tls-secret a/b", []string{"--tls-secret needs a cluster: set --cert-dir"}},
		{"--from-dir a --open --name b", []string{"--name needs a cluster: remove it"}},
		{"--join-ca a", []string{"--join-ca is the CA of --join-server: set --join-server"}},
		{"--join-server http://a:6443", []string{`--join-server is a URL such as https://api.example.com:6443, not "http://a:6443"`}},
		{"--join-server api.example.com:6443", []string{`--join-server is a URL such as https://api.example.com:6443, not "api.example.com:6443"`}},
		{"--from-dir a --open --key-service unix:///s --key-service-key pgp@A", []string{"--key-service needs a cluster, because without one the server decrypts no files: remove it", "--key-service-key needs a cluster, because without one the server decrypts no files: remove it", "reading --key-service-key: \"pgp@A\" is no key: it begins with pgp, kms, gcp_kms, azure_kv, hc_vault or hckms, and goes on with what the file names, such as `kms arn:aws:kms:…`"}},
		{"--key-service tcp://10.0.0.1:5000", []string{"reading --key-service: a key service is at unix:///PATH, or at tcp://127.0.0.1:PORT, not at \"tcp://10.0.0.1:5000\": it has neither encryption nor authentication, so it must run on this host", "--key-service and --key-service-key belong together: where the key service is, and the keys for which it may be asked"}},
		{"--serve latest", []string{`--serve is healthy or newest, not "latest"`}},
		{"--secrets none", []string{`--secrets is bound or all, not "none"`}},
		{"--tls-secret a", []string{`--tls-secret is a namespace and a name, as bunsen-system/machine-config-server-tls, not "a"`}},
		{"--allow-from 10.0.0.0/8,b", []string{`reading --allow-from: reading "b": want a network such as 192.0.2.0/24 or 2001:db8::/48, or an address`}},
		{"--from-git a --cache-dir b --open --interval 0s", []string{"--interval is a duration such as 1m, not 0s"}},
		{"--grace -1s", []string{"--grace is a duration such as 1m, not -1s"}},
		{"--rate -1", []string{"--rate is a number of requests per second, or 0 for no limit, not -1"}},
		{"--burst 0", []string{"--burst 0 allows no request: set at least 1, or --rate 0 for no limit"}},
		{"--failure-burst 0", []string{"--failure-burst 0 allows no request: set at least 1, or --failure-rate 0 for no limit"}},
		{"--max-connections 0", []string{"--max-connections 0 allows no connection: set at least 1"}},
		{"--max-connections-per-source 0", []string{"--max-connections-per-source 0 allows no connection: set at least 1"}},
		{"--registry-ca ca.crt", []string{`--registry-ca is NAME=FILE, such as registry.example.com:5000=ca.crt, not "ca.crt"`}},
		{"--registry-ca ../../a=ca.crt", []string{`--registry-ca is NAME=FILE, such as registry.example.com:5000=ca.crt, not "../../a=ca.crt"`}},
		{"--registry-ca a=b --registry-ca a=c", []string{"--registry-ca names a twice: put both certificates into one file"}},
		{"--serve latest --join-ca a --burst 0", []string{"--join-ca is the CA of --join-server: set --join-server", `--serve is healthy or newest, not "latest"`, "--burst 0 allows no request: set at least 1, or --rate 0 for no limit"}},
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(c.args))
		if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != strings.Join(c.want, "\n") {
			t.Errorf("%s: got\n%v\nwant\n%s", c.args, err, strings.Join(c.want, "\n"))
		}
	}
}

func TestWhatIsMeantAndCannotBeIsExplained(t *testing.T) {
	key := write(t, "key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--kubeconfig", "/does/not/exist"}, "--kubeconfig"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--listen", "nowhere"}, "opening --listen nowhere"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--hostnames", "https://a"}, `"https://a"`},
		{[]string{"--kubeconfig", kubeconfig(t), "--join-server", "https://a"}, "--join-server needs --join-ca"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--kubelet-ca", key}, "is a PRIVATE KEY: remove it, machines must never get a private key"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--cloud-ca", write(t, "ca", "-----BEGIN CERTIFICATE-----\nhalf")}, "1 of 1 certificates are incomplete"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--registry-ca", "a=" + write(t, "ca", "")}, "it has no PEM certificate"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--cache-dir", key}, "--cache-dir"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--audit-log", key + "/a"}, "opening --audit-log"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--client-ca", key}, "client certificates"},
		{[]string{"--kubeconfig", kubeconfig(t), "--cert-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:8798"}, "loopback only"},
		{[]string{"--from-dir", key, "--open", "--cert-dir", t.TempDir()}, "--from-dir"},
		{[]string{"--from-dir", t.TempDir(), "--tokens-file", key, "--cache-dir", t.TempDir(), "--cert-dir", t.TempDir()}, "--tokens-file"},
		{[]string{"--from-git", "https://a:b@example.com/os.git", "--open", "--cache-dir", t.TempDir(), "--cert-dir", t.TempDir()}, "password"},
		{[]string{"--from-git", "/r", "--open", "--cache-dir", t.TempDir(), "--cert-dir", t.TempDir(), "--git-credentials", "/not", "--git-keys", "/nor"}, "reading --git-credentials: stat /not: no such file or directory\nreading --git-keys: stat /nor: "},
		{[]string{"start"}, "unknown command"},
		{[]string{"start"}, "\nSee: machine-config-server --help"},
		{[]string{"--nosuch"}, "unknown flag: --nosuch\nSee: machine-config-server --help"},
	} {
		cmd := command()
		cmd.SetArgs(c.args)
		if err := cmd.ExecuteContext(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q in it", c.args, err, c.want)
		}
	}
}

func TestOutsideOfAClusterItSaysOnlyWhatToGive(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	said := logged(t)
	cmd := command()
	cmd.SetArgs(nil)
	if err := cmd.ExecuteContext(t.Context()); err == nil ||
		!strings.Contains(err.Error(),
			"set --kubeconfig outside of a cluster, or --from-dir or --from-git without one") {
		t.Errorf("got %v", err)
	}
	if text := said(); text != "" {
		t.Errorf("and beside it\n%s", text)
	}
}

// logged is what is written to the standard error from now on.
func logged(t *testing.T) func() string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = file
	t.Cleanup(func() {
		os.Stderr = before
		_ = file.Close()
	})
	return func() string {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func TestTheReportNamesEachAuthority(t *testing.T) {
	of := func(kind, der string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(der)}))
	}
	const one, two = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
		"3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
	for sentence, c := range map[string]struct {
		bundle string
		want   []string
	}{
		"none is known":                {"", nil},
		"one":                          {of("CERTIFICATE", "one"), []string{one}},
		"an old one and a new one":     {of("CERTIFICATE", "one") + "# new\n" + of("CERTIFICATE", "two"), []string{one, two}},
		"something else is among them": {of("X509 CRL", "crl") + of("CERTIFICATE", "one"), []string{one}},
	} {
		if got := fingerprints([]byte(c.bundle)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", sentence, got, c.want)
		}
	}
}
