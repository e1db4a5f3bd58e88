package render_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// TestFilesMoveByContentAlone: for random documents in random order, the same files move, every byte is in the config
// or in the contents, and the result fits into an object.
func TestFilesMoveByContentAlone(t *testing.T) {
	for seed := range int64(10) {
		r := rand.New(rand.NewSource(seed))
		var mcs []*mcfgv1.MachineConfig
		want := map[string]int{}
		for i := range 8 {
			size := 1 + r.Intn(500_000)
			path := fmt.Sprintf("/opt/%d", i)
			want[path] = size
			mcs = append(mcs, mc(fmt.Sprintf("%d-a", 10+i), "worker", file(path, `,"contents":{"source":"data:;base64,`+
				base64.StdEncoding.EncodeToString(make([]byte, size))+`"}`)))
		}
		first := merged(t, mcs...)
		r.Shuffle(len(mcs), func(i, j int) { mcs[i], mcs[j] = mcs[j], mcs[i] })
		again := merged(t, mcs...)
		if first.Name != again.Name || len(first.Contents) != len(again.Contents) {
			t.Errorf("seed %d: %s and %s", seed, first.Name, again.Name)
		}
		if size := len(first.Spec.Config.Raw); size > render.MaxSize || len(first.Contents) > 0 && size > 1<<20 {
			t.Errorf("seed %d: the config has %d bytes", seed, size)
		}
		smallest := 1 << 30
		for _, c := range first.Contents {
			if int(c.Size) != want[c.Path] {
				t.Errorf("seed %d: %s has %d bytes, and not %d", seed, c.Path, c.Size, want[c.Path])
			}
			smallest = min(smallest, want[c.Path])
			delete(want, c.Path)
		}
		for path, size := range want {
			if len(first.Contents) > 0 && size > smallest {
				t.Errorf("seed %d: %s stays, and a smaller file moved", seed, path)
			}
		}
	}
}

// TestFilesThatMayNotMove: a config whose large files have references, or units, says so.
func TestFilesThatMayNotMove(t *testing.T) {
	big := strings.Repeat("x", 1_600_000)
	for name, f := range map[string]string{
		"a fact":   file("/opt/a", `,"contents":{"source":"data:,$%7Bnode.name%7D`+big+`"}`),
		"a secret": file("/opt/a", `,"contents":{"source":"`+machineconfig.TemplateURL("${secret:a/b}"+big)+`"}`),
		"a part":   file("/opt/a", `,"append":[{"source":"data:,`+big+`"}]`),
		"a unit":   file("/etc/systemd/system/a.service", `,"contents":{"source":"data:,`+big+`"}`),
		"a preset": file("/etc/systemd/system-preset/a.preset", `,"contents":{"source":"data:,`+big+`"}`),
	} {
		if r, err := render.Merge("worker", []*mcfgv1.MachineConfig{mc("10-a", "worker", f)},
			render.Defaults{LargeFiles: true}); len(r.Contents) > 0 {
			t.Errorf("%s: %v moved, %v", name, r.Contents[0].Path, err)
		}
	}
}

// TestAStoredFileIsOverridden: a later document replaces a file of the content store by contents of its own, and the
// other way round.
func TestAStoredFileIsOverridden(t *testing.T) {
	hash := "sha512-" + strings.Repeat("0a", 64)
	stored := mc("10-a", "worker", file("/opt/a", `,"contents":{"source":"`+machineconfig.StoredSource(hash)+
		`","verification":{"hash":"`+hash+`"}}`))
	inline := mc("20-a", "worker", file("/opt/a", `,"contents":{"source":"data:,x"}`))
	if r := merged(t, stored, inline); len(machineconfig.RemoteFiles(r.Config)) != 0 {
		t.Errorf("it downloads %v", machineconfig.RemoteFiles(r.Config))
	}
	stored.Name = "30-a"
	if r := merged(t, stored, inline); len(machineconfig.RemoteFiles(r.Config)) != 1 || len(r.Contents) != 0 {
		t.Errorf("it downloads %v and moved %v", machineconfig.RemoteFiles(r.Config), r.Contents)
	}
}

func TestWithoutAContentStoreAConfigThatDoesNotFitIsAnError(t *testing.T) {
	large := func(name string) *mcfgv1.MachineConfig {
		return mc("10-"+name, "worker", file("/opt/"+name, `,"contents":{"source":"data:,`+strings.Repeat("a", 900_000)+`"}`))
	}
	mcs := []*mcfgv1.MachineConfig{large("a"), large("b")}
	_, err := render.Merge("worker", mcs, render.Defaults{})
	if !errors.Is(err, machineconfig.ErrNoContentStore) || !strings.Contains(err.Error(), "file /opt/a") {
		t.Error(err)
	}
	if r := merged(t, mcs...); len(r.Contents) == 0 {
		t.Error("with a content store, no file moves")
	}
}
