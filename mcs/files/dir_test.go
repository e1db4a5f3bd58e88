package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/files"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// promised is a check that knows names by their end: a hash of zeros is the right one.
func promised(_ string, mc *mcfgv1.MachineConfig) error {
	if !strings.HasSuffix(mc.Name, strings.Repeat("0", 32)) {
		return fmt.Errorf("the content of %s is not what the name says", mc.Name)
	}
	return nil
}

func folder(t *testing.T, archive []txtar.File) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "configs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range archive {
		write(t, filepath.Join(dir, f.Name), string(f.Data))
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFoldersOfConfigs has one folder in each archive of testdata/dir, and what is made of it: who is served what, or
// everything that is wrong.
func TestFoldersOfConfigs(t *testing.T) {
	archives, err := filepath.Glob("testdata/dir/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("%v, %v", archives, err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			last := len(archive.Files) - 1
			if archive.Files[last].Name != "want" {
				t.Fatal("the last file must be called want")
			}
			dir, on := folder(t, archive.Files[:last]), mcs.NewPools()
			d, err := files.OpenDir(dir, promised, on, quiet())
			if err != nil {
				t.Fatal(err)
			}
			got := outcome(d.Reload(), on, dir)
			if *update {
				archive.Files[last].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(archive.Files[last].Data), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// outcome is what a look led to, without the folder's name.
func outcome(err error, on *mcs.Pools, dir string) string {
	var out strings.Builder
	if err != nil {
		fmt.Fprintln(&out, strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	if !on.Ready() {
		fmt.Fprintln(&out, "not ready")
	}
	serving, _ := json.MarshalIndent(on.Status(), "", "  ")
	return out.String() + string(serving) + "\n"
}

const good = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: mine
spec:
  config: {ignition: {version: 3.5.0}, storage: {files: [{path: /etc/a, contents: {source: "data:,%s"}}]}}
`

// bodyOf is the body that a pool's machines get.
func bodyOf(t *testing.T, on *mcs.Pools, pool string) string {
	t.Helper()
	offer, err := on.Config(pool)
	if err != nil {
		return err.Error()
	}
	body, err := offer.Body(mcs.ServedFormat{Version: mcs.Newest}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(body.Head)
}

// TestAFolderIsFollowed: what changes is taken up with the next look; what is bad leaves what was served, and is said
// once; a pool whose file is gone is gone.
func TestAFolderIsFollowed(t *testing.T) {
	dir := folder(t, []txtar.File{{Name: "worker.yaml", Data: fmt.Appendf(nil, good, "one")}})
	var log bytes.Buffer
	on := mcs.NewPools()
	synctest.Test(t, func(t *testing.T) {
		d, err := files.OpenDir(dir, promised, on, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.Run(ctx)
		looked := func() { synctest.Wait() }
		later := func() {
			ticked, cancel := context.WithTimeout(ctx, files.PollInterval)
			defer cancel()
			<-ticked.Done()
			synctest.Wait()
		}
		looked()
		if got := bodyOf(t, on, "worker"); !strings.Contains(got, "data:,one") || !on.Ready() {
			t.Errorf("served is %s, ready %v, log %s", got, on.Ready(), log.String())
		}
		write(t, filepath.Join(dir, "worker.yaml"), fmt.Sprintf(good, "two"))
		later()
		if got := bodyOf(t, on, "worker"); !strings.Contains(got, "data:,two") {
			t.Errorf("served is %s", got)
		}
		write(t, filepath.Join(dir, "worker.yaml"), fmt.Sprintf(good, "three")[:150])
		write(t, filepath.Join(dir, "other.json"), "{")
		later()
		later()
		if got := bodyOf(t, on, "worker"); !strings.Contains(got, "data:,two") {
			t.Errorf("served is %s", got)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "other.json:1: ") {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
		if err := os.RemoveAll(dir); err != nil { // as while somebody puts another one in its place
			t.Fatal(err)
		}
		later()
		later()
		if n := strings.Count(log.String(), "level=WARN"); n != 2 {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "infra.yaml"), fmt.Sprintf(strings.ReplaceAll(good, "worker", "infra"), "three"))
		later()
		if got := bodyOf(t, on, "infra"); !strings.Contains(got, "data:,three") {
			t.Errorf("served is %s", got)
		}
		if _, err := on.Config("worker"); !errors.Is(err, mcs.ErrUnknownPool) {
			t.Errorf("a pool that is gone answers %v", err)
		}
	})
}

// TestAPoolThatNeverWorkedGoesToo: a config that cannot be served leaves nothing behind.
func TestAPoolThatNeverWorkedGoesToo(t *testing.T) {
	bad := strings.ReplaceAll(fmt.Sprintf(good, "one"), "path: /etc/a", "path: relative")
	dir, on := folder(t, []txtar.File{{Name: "worker.yaml", Data: []byte(bad)}}), mcs.NewPools()
	d, err := files.OpenDir(dir, promised, on, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Reload(); err == nil || !strings.Contains(err.Error(), "serving config mine to pool worker: ") {
		t.Errorf("got %v", err)
	}
	if err := os.Rename(filepath.Join(dir, "worker.yaml"), filepath.Join(dir, "worker.txt")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "infra.yaml"), fmt.Sprintf(strings.ReplaceAll(good, "worker", "infra"), "two"))
	if err := d.Reload(); err != nil {
		t.Error(err)
	}
	if _, err := on.Config("worker"); !errors.Is(err, mcs.ErrUnknownPool) {
		t.Errorf("a pool that is gone answers %v", err)
	}
}

// TestThereMustBeAFolder: a mistyped name stops the server at the start.
func TestThereMustBeAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	for _, name := range []string{file, file + "-not-there"} {
		if _, err := files.OpenDir(name, promised, nil, quiet()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v", err)
		}
	}
}

// FuzzFolders: no file makes the reading of it fall over, and a file of one object is read or is told of.
func FuzzFolders(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(good, "one")))
	f.Add([]byte("---\n# nothing\n---\n{}\n---"))
	f.Add([]byte(`{"kind":"List","apiVersion":"v1","items":[{},{"kind":"MachineConfig"}]} {"a":`))
	f.Fuzz(func(t *testing.T, data []byte) {
		on := mcs.NewPools()
		d, err := files.OpenDir(folder(t, []txtar.File{{Name: "worker.yaml", Data: data}}), promised, on, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Reload(); (err == nil) != (on.Status()["worker"].Config != "" || len(on.Status()) > 0) {
			t.Errorf("%v, but %v is served", err, on.Status())
		}
	})
}

// TestAFolderThatWasNeverGoodServesNothing checks that the log says so.
func TestAFolderThatWasNeverGoodServesNothing(t *testing.T) {
	dir := folder(t, []txtar.File{{Name: "worker.yaml", Data: []byte("{")}})
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		d, err := files.OpenDir(dir, promised, mcs.NewPools(), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go d.Run(ctx)
		synctest.Wait()
		stop()
		synctest.Wait()
	})
	if !strings.Contains(log.String(), "pools=0") {
		t.Errorf("said is\n%s", log.String())
	}
}
