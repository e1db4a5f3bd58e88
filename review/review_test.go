package review_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

var update = flag.Bool("update", false, "rewrite the goldens; read the diff")

// tree writes the files of an archive below a prefix to disk, as a tree.
func tree(t *testing.T, a *txtar.Archive, prefix string) source.Tree {
	t.Helper()
	root := t.TempDir()
	for _, f := range a.Files {
		name, ok := strings.CutPrefix(f.Name, prefix+"/")
		if !ok {
			continue
		}
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return source.Tree{Root: root, FS: os.DirFS(root), Digest: "sha256:" + t.Name() + prefix}
}

func side(t *testing.T, a *txtar.Archive, name string) (review.Side, transpile.Result) {
	t.Helper()
	res := transpile.Fragments(tree(t, a, name))
	if res.Report.Fatal() {
		t.Fatalf("%s:\n%s", name, res.Report)
	}
	r := review.Render(res, &render.Renderer{}, render.Defaults{})
	if r.Err != nil {
		t.Fatalf("%s: %v", name, r.Err)
	}
	return r.Side(name), res
}

// TestComparisons replays testdata: a repository before (base/) and after (head/), and what a reviewer is shown.
func TestComparisons(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			base, before := side(t, a, "base")
			head, res := side(t, a, "head")
			was, err := review.PolicyOf(before)
			if err != nil {
				t.Fatal(err)
			}
			p, err := review.PolicyOf(res)
			if err != nil {
				t.Fatal(err)
			}
			c := review.Compare(base, head, p)
			c.Policy = review.ComparePolicies(was, p)
			raw, err := json.MarshalIndent(c, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{"want.txt": c.Text(review.Style{}), "want.json": string(raw) + "\n"}
			for i, f := range a.Files {
				text, ok := got[f.Name]
				if !ok {
					continue
				}
				if *update {
					a.Files[i].Data = []byte(text)
				} else if diff := cmp.Diff(string(f.Data), text); diff != "" {
					t.Errorf("%s differs (-want +got):\n%s", f.Name, diff)
				}
				delete(got, f.Name)
			}
			if _, missing := got["want.txt"]; missing {
				t.Error("the case has no want.txt")
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestNothingSecretIsPrinted: no printer shows a content that looks secret, on whichever side it is.
func TestNothingSecretIsPrinted(t *testing.T) {
	const doc = "variant: fcos\nversion: 1.5.0\n"
	file := func(path, content string) string {
		return doc + "storage:\n  files:\n    - path: " + path + "\n      mode: 0600\n      contents:\n        inline: |\n          " + content + "\n"
	}
	key := "-----BEGIN OPENSSH " + "PRIVATE KEY----- hunter2"
	for sentence, docs := range map[string][2]string{
		"a file with secret in its name":           {file("/etc/app/client-secret", "hunter1"), file("/etc/app/client-secret", "hunter2")},
		"a key by its ending":                      {file("/etc/pki/tls/host.key", "hunter1"), file("/etc/pki/tls/host.key", "hunter2")},
		"a private key by what it holds":           {file("/etc/app/blob", "nothing"), file("/etc/app/blob", key)},
		"the registries' pull secret":              {file("/var/lib/kubelet/config.json", "hunter1"), file("/var/lib/kubelet/config.json", "hunter2")},
		"a secret that comes":                      {file("/etc/motd", "hello"), file("/etc/app/password", "hunter2")},
		"a secret that goes":                       {file("/etc/app/password", "hunter2"), file("/etc/motd", "hello")},
		"a password hash of a user":                {doc + "passwd:\n  users:\n    - name: core\n      password_hash: hunter1\n", doc + "passwd:\n  users:\n    - name: core\n      password_hash: hunter2\n"},
		"a unit that carries a key in its drop-in": {file("/etc/motd", "hello"), doc + "systemd:\n  units:\n    - name: a.service\n      dropins:\n        - name: 10-a.conf\n          contents: |\n            # " + key + "\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			a := &txtar.Archive{Files: []txtar.File{
				{Name: "base/pools/worker/10-a.bu", Data: []byte(docs[0])}, {Name: "head/pools/worker/10-a.bu", Data: []byte(docs[1])},
			}}
			base, _ := side(t, a, "base")
			head, res := side(t, a, "head")
			p, err := review.PolicyOf(res)
			if err != nil {
				t.Fatal(err)
			}
			c := review.Compare(base, head, p)
			raw, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			if !c.Changed() || len(c.Pools[0].Items) == 0 {
				t.Fatal("the case changes nothing")
			}
			for _, text := range []string{c.Text(review.Style{}), c.Text(review.Style{Colour: true}), string(raw)} {
				if strings.Contains(text, "hunter") {
					t.Errorf("printed:\n%s", text)
				}
				if !strings.Contains(text, "hidden") {
					t.Errorf("does not say that something is hidden:\n%s", text)
				}
			}
		})
	}
}
