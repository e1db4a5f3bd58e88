package support_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/internal/support"
)

// canary is a secret that must not be in a bundle, in plain text or in base64.
const canary = "c4n4ry-d0-n0t-l3ak-9f8e7d6c"

func encoded() string { return base64.StdEncoding.EncodeToString([]byte("key = " + canary)) }

func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

// unpack returns the files of an archive, and all their bytes.
func unpack(t *testing.T, archive []byte) (names []string, all string) {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(zip); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return names, all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		names, all = append(names, head.Name), all+string(content)
	}
}

// TestNoSecretIsInABundle has each place of an object and of a log that can contain a secret.
func TestNoSecretIsInABundle(t *testing.T) {
	b := &support.Bundle{Name: "bundle", At: noon()}
	for name, text := range map[string]string{
		"file":       "kind: MachineConfig\nspec: {config: {storage: {files: [{path: /etc/x, contents: {source: 'data:,key%20=%20" + canary + "'}}]}}}",
		"base64":     "kind: MachineConfig\nspec: {config: {storage: {files: [{path: /etc/x, contents: {source: 'data:text/plain;charset=utf-8;base64," + encoded() + "'}}]}}}",
		"unit":       "kind: MachineConfig\nspec: {config: {systemd: {units: [{name: a.service, contents: 'Environment=X=" + canary + "', dropins: [{name: b.conf, contents: '" + canary + "'}]}]}}}",
		"user":       "kind: MachineConfig\nspec: {config: {passwd: {users: [{name: core, passwordHash: " + canary + "}]}}}",
		"content":    "kind: RevisionContent\nspec: {data: " + encoded() + "}",
		"url":        "kind: GitSource\nspec: {url: 'https://ada:" + canary + "@git.example.com/os'}",
		"annotation": "kind: Node\nmetadata: {annotations: {machineconfiguration.openshift.io/reason: 'unit failed: password=" + canary + "'}}",
		"wanted":     `kind: MachineConfig` + "\n" + `metadata: {annotations: {bunsen.dev/wanted: '{"contents":{"source":"data:,` + canary + `"}}', kubectl.kubernetes.io/last-applied-configuration: "` + canary + `"}}`,
		"pod":        "kind: Pod\nspec: {containers: [{name: c, args: ['--token=" + canary + "']}]}",
	} {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		content, err := support.Object(&unstructured.Unstructured{Object: object})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), canary) || strings.Contains(string(content), encoded()) {
			t.Errorf("%s is not masked:\n%s", name, content)
		}
		b.Add("objects/"+name+".yaml", content)
	}
	b.Add("logs/a.log",
		[]byte(support.Text("fetching https://ada:"+canary+"@git.example.com/os\nAuthorization: Bearer "+canary+"\n")))
	b.LeaveOut("logs/b.log", "Get https://ada:"+canary+"@10.0.0.1/: EOF")
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	names, all := unpack(t, out.Bytes())
	if strings.Contains(all, canary) || strings.Contains(all, encoded()) {
		t.Errorf("the canary is in the bundle:\n%s", all)
	}
	for _, stays := range []string{
		"path: /etc/x", "name: a.service", "name: core", "git.example.com/os", "unit failed",
		"(left out, ",
	} {
		if !strings.Contains(all, stays) {
			t.Errorf("the bundle lacks %q", stays)
		}
	}
	if names[0] != "bundle/logs/a.log" || names[len(names)-1] != "bundle/left-out.txt" {
		t.Errorf("the files are %q", names)
	}
	var again bytes.Buffer
	if err := b.Write(&again); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Errorf("the same bundle has other bytes the second time: %v", err)
	}
}

// TestABundleIsBounded shortens long files at a line, and leaves out files when it is full.
func TestABundleIsBounded(t *testing.T) {
	b := &support.Bundle{Name: "bundle", At: noon()}
	b.Add("long", bytes.Repeat([]byte("a line\n"), support.MaxFile/5))
	for i := range 60 {
		b.Add(fmt.Sprintf("part-%02d", i), bytes.Repeat([]byte("x"), support.MaxFile))
	}
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	names, all := unpack(t, out.Bytes())
	if len(all) > 202<<20 || len(names) > 55 {
		t.Errorf("the bundle has %d files with %d bytes", len(names), len(all))
	}
	if !strings.HasPrefix(all, "a line\n") || !strings.Contains(all, "long: only its last ") ||
		!strings.Contains(all, "part-59: the bundle is full") {
		t.Error("the bundle does not say what it leaves out")
	}
}
