package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// ostreeMachineOf makes a machine of a script: a root with os-release and the programs that it names, which are this
// binary.
func ostreeMachineOf(t *testing.T, script *txtar.Archive) (o host.OperatingSystem, dir string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{"script": string(txtar.Format(script)), "etc/os-release": section(script,
		"os-release")}
	if section(script, "packages only") == "" {
		content["run/ostree-booted"] = ""
	}
	for name, text := range content {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range strings.Fields(section(script, "programs")) {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755),
			os.Symlink(self, filepath.Join(dir, "usr/bin", name))); err != nil {
			t.Fatal(err)
		}
	}
	root, err := files.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	o = DetectOSTree(root, dir)
	// The programs are this binary, which is outside of the root.
	outside := func(x *machine.Program) {
		if x.Path == "" {
			return
		}
		x.Path, x.Root, x.Env = filepath.Join(dir, x.Path), "/", []string{fakeDir + "=" + dir}
		x.Wait = func(_ context.Context, d time.Duration) error {
			note(dir, "wait "+d.String())
			return nil
		}
	}
	switch o := o.(type) {
	case *RPMOSTree:
		outside(&o.rpm)
		outside(&o.bootc)
	case *Bootc:
		outside(&o.bootc)
		outside(&o.ostree)
	}
	return o, dir
}

// stepOf reads `kargs: before -> after`.
func stepOf(t *testing.T, line string) host.Step {
	t.Helper()
	verb, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
	before, after, arrow := strings.Cut(rest, "->")
	if !ok || !arrow {
		t.Fatalf("%q is no step", line)
	}
	return host.Step{
		Verb: host.Verb(verb), Before: host.Value{Word: strings.TrimSpace(before)},
		After: host.Value{Word: strings.TrimSpace(after)},
	}
}

func TestWhatEachStepAsksOfTheMachine(t *testing.T) {
	files, err := filepath.Glob("testdata/os/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			script, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := &txtar.Archive{Comment: script.Comment}
			for _, f := range script.Files {
				if f.Name != "does" && f.Name != "says" && f.Name != "status" {
					got.Files = append(got.Files, f)
				}
			}
			o, dir := ostreeMachineOf(t, script)
			for _, line := range lines(section(script, "steps")) {
				do := o.Stage
				if step := stepOf(t, line); step.Verb == "download" {
					do = func(ctx context.Context, step host.Step) error {
						return o.(host.ImageDownloader).Download(ctx, step.After.Word)
					}
				}
				if err := do(t.Context(), stepOf(t, line)); err != nil {
					add(got, "says", err.Error()+"\n")
					if refusal := strings.Contains(err.Error(), "not supported"); refusal != errors.Is(err,
						host.ErrUnsupported) {
						t.Errorf("a refusal is ErrUnsupported and nothing else: %v", err)
					}
				}
			}
			add(got, "does", changesIn(read(dir, "does")))
			is, err := o.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, plain := o.(Packaged); !plain && strings.Contains(section(script, "programs"), "rpm-ostree") {
				add(got, "status", fmt.Sprintf("booted %s\nnext   %s\n", osText(is.Booted), osText(is.Next)))
			} else if plain || is.Booted.Kargs != "" {
				add(got, "status", fmt.Sprintf("booted image %q\nnext   image %q\n", is.Booted.Image, is.Next.Image))
			}
			add(got, "status", fmt.Sprintf("can image %t, kargs %t, kernel type %t, extensions %t", is.Support.Image,
				is.Support.Kargs, is.Support.KernelType, is.Support.Extensions))
			if is.Support.Why != "" {
				add(got, "status", "; "+is.Support.Why)
			}
			add(got, "status", "\n")
			golden(t, file, got)
		})
	}
}

// add puts text into a section, which comes last where it is new.
func add(a *txtar.Archive, name, text string) {
	for i := range a.Files {
		if a.Files[i].Name == name {
			a.Files[i].Data = append(a.Files[i].Data, text...)
			return
		}
	}
	if text != "" {
		a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)})
	}
}

// changesIn leaves out what only looks.
func changesIn(does string) (changes string) {
	for line := range strings.Lines(does) {
		if !strings.Contains(line, " status --json") && !strings.Contains(line, " kargs --deploy-index=") {
			changes += line
		}
	}
	return changes
}

func osText(o host.OS) string {
	return fmt.Sprintf("%s | %s | %s | %s", o.Image, o.Kargs, o.KernelType, o.Extensions)
}

func golden(t *testing.T, file string, got *txtar.Archive) {
	t.Helper()
	text := txtar.Format(got)
	if *update {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(text)); d != "" {
		t.Errorf("%s (-want +got), or run with -update:\n%s", file, d)
	}
}
