package lineage_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

var update = flag.Bool("update", false, "write the goldens anew; read the diff before you commit it")

// TestAnswers replays testdata: a repository, MachineConfigs made through the API, questions, and the answers. Lines of
// the base are said to be of a commit, and the others not to be committed yet.
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases:", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text, reports := answers(t, archive)
		raw, err := json.MarshalIndent(reports, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{"want": text, "want.json": string(raw) + "\n"}
		for i, f := range archive.Files {
			if want, ok := got[f.Name]; ok && *update {
				archive.Files[i].Data = []byte(want)
			} else if diff := cmp.Diff(string(f.Data), want); ok && diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", file, f.Name, diff)
			}
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(text+string(raw), "hunter") {
			t.Errorf("%s: the answers have a secret in them", file)
		}
	}
}

// answers are the texts of all, and the JSON of the first.
func answers(t *testing.T, archive *txtar.Archive) (string, lineage.Report) {
	t.Helper()
	root := t.TempDir()
	unpack(t, archive, "", root)
	res := transpile.Fragments(source.Tree{Root: root, FS: os.DirFS(root)})
	if res.Report.Fatal() {
		t.Fatal(res.Report)
	}
	fragments, err := transpile.Select(res, "worker")
	if err != nil {
		t.Fatal(err)
	}
	var mcs []*mcfgv1.MachineConfig
	for _, f := range fragments {
		mcs = append(mcs, f.MachineConfig)
	}
	mcs = append(mcs, made(archive)...)
	rendered, err := render.Merge("worker", mcs, render.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := lineage.LayersOf(mcs, res.Fragments)
	if err != nil {
		t.Fatal(err)
	}
	l := lineage.New(layers, lineage.Options{Pool: "worker", Mask: func(path, content string) secretmask.Masked {
		if strings.Contains(path, "token") {
			return secretmask.Masked{Text: secretmask.HiddenWithDigest(content), Hidden: true}
		}
		return secretmask.Masked{Text: content}
	}})
	var out strings.Builder
	var first lineage.Report
	for _, question := range strings.Split(strings.TrimSpace(string(fileOf(archive, "questions"))), "\n") {
		out.WriteString("$ bunsen explain " + question + "\n")
		items, err := l.Find(question)
		if err != nil {
			out.WriteString(err.Error() + "\n\n")
			continue
		}
		for i := range items {
			if err := items[i].Annotate(history(root)); err != nil {
				t.Fatal(err)
			}
		}
		report := lineage.Report{Version: lineage.Version, Pool: "worker", Rendered: rendered.Name, Items: items}
		if first.Items == nil {
			first = report
		}
		out.WriteString(report.Text() + "\n")
	}
	return out.String(), first
}

// history stands for git: line 10 of a document of base, and of a text that it takes in the second line, are newer than
// the others.
func history(root string) lineage.Repository {
	return lineage.Repository{
		Read: func(file string) ([]byte, error) { return os.ReadFile(filepath.Join(root, file)) },
		Blame: func(file string, lines []int) (map[int]lineage.Commit, error) {
			out := map[int]lineage.Commit{}
			for _, n := range lines {
				switch {
				case strings.HasPrefix(file, "base/") && n == 10 || strings.HasSuffix(file, "/motd") && n == 2:
					out[n] = lineage.Commit{
						Hash:   "77e1d20077e1d20077e1d20077e1d20077e1d200",
						Author: "Bob <bob@example.org>", Date: time.Unix(1700090000, 0), Subject: "change a line",
					}
				case strings.HasPrefix(file, "base/") || strings.HasSuffix(file, "/motd"):
					out[n] = lineage.Commit{
						Hash:   "4f1c2ab9d0f04f1c2ab9d0f04f1c2ab9d0f04f1c",
						Author: "Ada <ada@example.org>", Date: time.Unix(1700000000, 0),
						Subject: "chrony: use the pool",
					}
				}
			}
			return out, nil
		},
	}
}

// made reads MachineConfigs of the API: a name and an Ignition config on each line.
func made(archive *txtar.Archive) (out []*mcfgv1.MachineConfig) {
	for _, line := range strings.Split(strings.TrimSpace(string(fileOf(archive, "api"))), "\n") {
		name, config, ok := strings.Cut(line, " ")
		if !ok {
			continue
		}
		mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{render.RoleLabel: "worker"},
		}}
		mc.Spec.Config = runtime.RawExtension{Raw: []byte(config)}
		out = append(out, mc)
	}
	return out
}

func fileOf(archive *txtar.Archive, name string) []byte {
	for _, f := range archive.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}
