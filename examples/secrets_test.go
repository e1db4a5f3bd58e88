package examples_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/internal/sops"

	"github.com/bunsen-os/bunsen/transpile"
)

// exampleKey decrypts the encrypted file of the example secrets, and nothing else.
const exampleKey = "AGE-SECRET-" + "KEY-12EZF6RH0CG65EHZM7J70ZLFLCFCJMDW4AZJRQYUN74FWF06QLAKSNLNMPR"

// TestTheExampleWithSecrets resolves the files of the example as the server does.
func TestTheExampleWithSecrets(t *testing.T) {
	taken, err := transpile.Select(build(t, "secrets"), "worker")
	if err != nil || len(taken) != 1 {
		t.Fatal(len(taken), err)
	}
	config, err := machineconfig.Parse(taken[0].MachineConfig.Spec)
	if err != nil {
		t.Fatal(err)
	}
	files, err := machineconfig.SecretFiles(config)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := sops.ParseIdentities([]byte(exampleKey))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		var plain []byte
		if f.Content.Format != "" {
			plain, err = sops.Decrypt(f.Content.Format, f.Content.Body, ids...)
		} else {
			plain, err = f.Content.Expand(func(r machineconfig.SecretReference) ([]byte, error) {
				return []byte("<" + r.String() + ">"), nil
			})
		}
		if err != nil {
			t.Errorf("%s: %v", f.Path, err)
		}
		got[f.Path] = string(plain)
	}
	for path, want := range map[string]string{
		"/etc/app/app.yaml":    "database:\n    host: db.example.com\n    user: app\n    password: an-example-password\n",
		"/etc/app/token":       "<secret:app/token>",
		"/etc/app/client.conf": "server = <configmap:site/server>\ntoken = <secret:app/token>\n",
	} {
		if got[path] != want {
			t.Errorf("%s has %q, want %q", path, got[path], want)
		}
	}
	raw, err := os.ReadFile(filepath.Join("secrets", sops.RulesFile))
	if err != nil {
		t.Fatal(err)
	}
	rs, err := sops.ParseRules(raw)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := rs.For("pools/worker/files/app.sops.yaml"); !ok || len(r.Groups) != 1 ||
		!strings.Contains(string(files[0].Content.Body), r.Groups[0][0]) {
		t.Errorf("the creation rule %+v is not that of the file", r)
	}
}

// TestTheCommandsForSecrets: the example and the documentation have the same commands.
func TestTheCommandsForSecrets(t *testing.T) {
	var blocks []string
	for _, page := range []string{"secrets/README.md", "../docs/secrets.md"} {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, found := strings.Cut(string(raw), "```sh\n")
		block, _, _ := strings.Cut(rest, "```")
		if lines := strings.Split(strings.TrimSpace(block), "\n"); !found || len(lines) != 5 {
			t.Errorf("%s begins with %d commands, want five", page, len(lines))
		}
		blocks = append(blocks, block)
	}
	if len(slices.Compact(blocks)) != 1 {
		t.Errorf("the commands differ:\n%s", strings.Join(blocks, "\n"))
	}
}
