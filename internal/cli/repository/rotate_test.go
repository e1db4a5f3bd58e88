package repository_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/cli/repository"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// A commit can add a recipient to .sops.yaml. No rotation encrypts for it until a user names it.
func TestARotationAddsNoRecipientByItself(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1e9, 0)
	key := func(name string) (file, recipient string) {
		var out bytes.Buffer
		file = filepath.Join(dir, name+".agekey")
		if err := repository.Keygen(&out, file, now); err != nil {
			t.Fatal(err)
		}
		recipient, _, _ = strings.Cut(out.String(), "\n")
		return file, recipient
	}
	mine, me := key("mine")
	_, other := key("other")
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write(".sops.yaml", "creation_rules: [{age: "+me+"}]\n")
	file := write("a.yaml", "a: 1\n")
	o := repository.SecretOptions{Keys: []string{mine}, Now: now}
	if err := o.Encrypt(file); err != nil {
		t.Fatal(err)
	}
	write(".sops.yaml", "creation_rules: [{age: '"+me+","+other+"'}]\n")
	recipients := func() string {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := document.Parse(document.YAML, body)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(d.Metadata.Recipients(), " ")
	}
	if err := o.Rotate(io.Discard, []string{file}); err == nil || !strings.Contains(err.Error(), other) ||
		recipients() != me {
		t.Errorf("a new recipient: got %v, the file is for %s", err, recipients())
	}
	o.Add = []string{other}
	if err := o.Rotate(io.Discard, []string{file}); err != nil || !strings.Contains(recipients(), other) {
		t.Errorf("a named recipient: got %v, the file is for %s", err, recipients())
	}
	o.Add, o.Remove = nil, []string{other}
	if err := o.Rotate(io.Discard, []string{file}); err != nil || recipients() != me {
		t.Errorf("a removed recipient: got %v, the file is for %s", err, recipients())
	}
	ini := write("db.ini", "[db]\npassword = pa;ss\n")
	if err := o.Encrypt(ini); err == nil || !strings.Contains(err.Error(), "binary") {
		t.Errorf("an INI file: got %v", err)
	}
	if is, err := os.ReadFile(ini); err != nil || string(is) != "[db]\npassword = pa;ss\n" {
		t.Errorf("the INI file changed: %q, %v", is, err)
	}
}
