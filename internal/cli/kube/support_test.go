package kube_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/vincent-petithory/dataurl"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

// canary is a secret that must not be in a bundle.
const canary = "c4n4ry-d0-n0t-l3ak-9f8e7d6c"

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

// codings returns a content as each data URL that Ignition reads, in a MachineConfig with further places of contents.
func codings(t *testing.T, content string) []string {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	every := ""
	for _, b := range []byte(content) {
		every += fmt.Sprintf("%%%02X", b)
	}
	return []string{
		"data:," + content, "data:," + dataurl.EscapeString(content), "data:," + every,
		"data:," + url.PathEscape(content), "data:;base64," + base64.StdEncoding.EncodeToString([]byte(content)),
		"data:text/x_y;base64," + base64.StdEncoding.EncodeToString([]byte(content)),
		"data:text/plain;charset=\"a\"," + content, "data:text/plain;charset=%22a%22," + content,
		"data:;base64," + base64.StdEncoding.EncodeToString(packed.Bytes()), "DATA:," + content, content,
	}
}

// TestNoContentIsInABundle: contents with each printable character, in each coding and at each place of an object, are
// not in the bundle. Their names and sizes are.
func TestNoContentIsInABundle(t *testing.T) {
	for c := byte(' '); c <= '~'; c++ {
		content := string([]byte{'#', c}) + canary + string([]byte{c, '\n'}) + canary
		var files, units, users, options []any
		var reasons string
		all := codings(t, content)
		for _, source := range all {
			contents := map[string]any{"source": source, "compression": "gzip"}
			files = append(files, map[string]any{"path": "/etc/x", "contents": contents, "append": []any{contents}})
			units = append(units, map[string]any{
				"name": "a.service", "contents": source, "dropins": []any{map[string]any{"contents": source}},
			})
			users = append(users, map[string]any{"name": "core", "passwordHash": source, "gecos": source})
			options = append(options, source)
			if line := strings.ReplaceAll(source, "\n", " "); source != content {
				reasons += "reading " + line + "\n"
			}
		}
		config := map[string]any{
			"storage": map[string]any{
				"files": files, "filesystems": []any{map[string]any{"device": "/dev/a", "mountOptions": options}},
			},
			"systemd": map[string]any{"units": units}, "passwd": map[string]any{"users": users},
			"ignition": map[string]any{"proxy": map[string]any{"noProxy": options}},
		}
		inJSON, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range []map[string]any{
			{
				"kind": "MachineConfig", "spec": map[string]any{"config": config},
				"metadata": map[string]any{"annotations": map[string]any{
					"bunsen.dev/wanted": string(inJSON),
					"x":                 reasons,
				}},
			},
			{"kind": "RevisionContent", "spec": map[string]any{"data": content}},
			{"kind": "ConfigMap", "data": map[string]any{"a": content}, "binaryData": map[string]any{"b": all[4]}},
		} {
			text, err := kube.MaskedObject(&unstructured.Unstructured{Object: object})
			if err != nil {
				t.Fatal(err)
			}
			shown := string(text) + kube.MaskedText(reasons)
			for _, source := range all {
				encoded := source[strings.IndexByte(source, ',')+1:]
				if strings.Contains(shown, encoded[:min(20, len(encoded))]) {
					t.Fatalf("%q is in\n%s", source, text)
				}
				if size := fmt.Sprintf("(left out, %d bytes)", len(source)); object["kind"] == "MachineConfig" &&
					!strings.Contains(strings.Join(strings.Fields(shown), " "), size) {
					t.Fatalf("%q lacks its size:\n%s", source, text)
				}
			}
			if strings.Contains(shown, canary) {
				t.Fatalf("contents with %q are in\n%s", c, text)
			}
			if object["kind"] == "MachineConfig" && (!strings.Contains(shown, "path: /etc/x") ||
				!strings.Contains(shown, "name: core")) {
				t.Fatalf("the names are missing:\n%s", text)
			}
		}
	}
}

// TestLogInsOfAddressesAreNotInABundle checks addresses in objects, in logs and in the list of what is missing.
func TestLogInsOfAddressesAreNotInABundle(t *testing.T) {
	b := &kube.Bundle{Name: "bundle", At: noon()}
	content, err := kube.MaskedObject(&unstructured.Unstructured{Object: map[string]any{
		"kind": "GitSource", "spec": map[string]any{"url": "https://ada:" + canary + "@git.example.com/os@v1"},
		"metadata": map[string]any{"annotations": map[string]any{
			"kubectl.kubernetes.io/last-applied-configuration": canary,
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.Add("objects/a.yaml", content)
	b.Add("logs/a.log", []byte(kube.MaskedText("fetching https://ada:"+canary+"@"+canary+"@git.example.com/os\n")))
	b.LeaveOut("logs/b.log", "Get https://ada:"+canary+"@10.0.0.1/: EOF")
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	names, all := unpack(t, out.Bytes())
	if strings.Contains(all, canary) || !strings.Contains(all, "git.example.com/os@v1") {
		t.Errorf("the bundle has\n%s", all)
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
	b := &kube.Bundle{Name: "bundle", At: noon()}
	b.Add("long", bytes.Repeat([]byte("a line\n"), kube.MaxBundleFile/5))
	for i := range 60 {
		b.Add(fmt.Sprintf("part-%02d", i), bytes.Repeat([]byte("x"), kube.MaxBundleFile))
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
