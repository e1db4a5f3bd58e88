package serving_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/source"
)

var update = flag.Bool("update", false, "rewrite the golden in testdata")

const (
	examples     = "../../examples"
	machineToken = "abcdef.0123456789abcdef"
)

// rendered are the rendered configs of an example's pools, as `bunsen build` makes them.
func rendered(t *testing.T, dir string) []*mcfgv1.MachineConfig {
	t.Helper()
	var all []*mcfgv1.MachineConfig
	res, out, _ := new(review.Renderings).Render(source.Tree{Root: dir, FS: os.DirFS(dir)}, nil)
	if res.Report.Fatal() || out.Err != nil || len(out.Pools) == 0 {
		t.Fatalf("%s does not render: %v\n%s", dir, out.Err, res.Report)
	}
	for _, p := range out.Pools {
		mc := &mcfgv1.MachineConfig{Spec: p.Rendered.Spec}
		mc.Name = p.Rendered.Name
		mc.Labels = map[string]string{"pool": p.Rendered.Pool}
		all = append(all, mc)
	}
	return all
}

// repositories are the examples that have pools.
func repositories(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(examples, "*", "pools"))
	if err != nil || len(dirs) < 3 {
		t.Fatalf("only %d examples have pools: %v", len(dirs), err)
	}
	for i, dir := range dirs {
		dirs[i] = filepath.Dir(dir)
	}
	return dirs
}

// ways are what a server may do with a config.
var ways = []struct {
	says     string
	extra    mcs.Extra
	withhold bool
}{
	{says: "alone"},
	{says: "with a way to join", extra: mcs.Extra{
		Files: []mcs.File{{Path: "/etc/kubernetes/kubelet-ca.crt", Mode: 0o644, Contents: []byte("pem\n")}},
		Join:  &mcs.Join{Server: "https://api.example:6443", CA: []byte("pem\n")},
	}},
	{says: "without its secrets", withhold: true},
}

// sent is a body as a machine gets it.
func sent(b mcs.Body) []byte {
	if !b.NeedsBootstrapToken() {
		return b.Head
	}
	return slices.Concat(b.Head, []byte(machineToken), b.Tail)
}

func TestEveryVersionOfEveryExampleIsReadByItsOwnParserAndMergesIntoAPointer(t *testing.T) {
	served := map[mcs.Version]int{}
	for _, dir := range repositories(t) {
		for _, mc := range rendered(t, dir) {
			pool := mc.Labels["pool"]
			for _, way := range ways {
				in := mcs.Input{Pool: pool, Rendered: mc, Extra: way.extra, Withhold: way.withhold}
				for _, v := range mcs.Versions() {
					name := fmt.Sprintf("%s, pool %s, %s, in %s", filepath.Base(dir), pool, way.says, v)
					body, err := mcs.Compose(in, v)
					if err != nil {
						refused(t, name, mc, err)
						continue
					}
					served[v]++
					if way.withhold && len(body.Withheld) == 0 {
						continue // it is the first way's
					}
					if err := read[v](pool, sent(body)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
	}
	for _, v := range mcs.Versions() {
		if served[v] < 6 {
			t.Errorf("only %d configs were served in %s: the test shows nothing", served[v], v)
		}
	}
}

// refused checks that what is said to be in the way is in the config.
func refused(t *testing.T, name string, mc *mcfgv1.MachineConfig, err error) {
	t.Helper()
	var fields []string
	var unsayable *mcs.UnsupportedFieldsError
	var bound *mcs.FirstBootSecretsError
	switch {
	case errors.As(err, &unsayable):
		fields = unsayable.Fields
	case errors.As(err, &bound):
		fields = bound.Fields
	default:
		t.Errorf("%s: %v", name, err)
		return
	}
	config, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		if at := placeOf(field); !holds(t, config, at) {
			t.Errorf("%s: it is said to lack %q, and the config has nothing at %q", name, field, at)
		}
	}
}

// placeOf takes the reason off a field.
func placeOf(field string) string {
	at, _, _ := strings.Cut(field, " (")
	if head, mode, ok := strings.Cut(at, ".mode "); ok && strings.HasPrefix(mode, "0") {
		return head + ".mode"
	}
	return at
}

// The golden is a document too: who has old images sees what they can boot.
func TestWhatExamplesCanBeSaidInWhichVersion(t *testing.T) {
	var out strings.Builder
	out.WriteString("# Which version of Ignition has words for which example, oldest first; below, what a version " +
		"lacks.\n")
	for _, dir := range repositories(t) {
		for _, mc := range rendered(t, dir) {
			var can, cannot []string
			for _, v := range mcs.Versions() {
				_, err := mcs.Compose(mcs.Input{Pool: mc.Labels["pool"], Rendered: mc}, v)
				var unsayable *mcs.UnsupportedFieldsError
				if errors.As(err, &unsayable) {
					cannot = append(cannot, "  "+string(v)+" lacks "+strings.Join(unsayable.Fields, ", "))
				} else if err == nil {
					can = append(can, string(v))
				} else {
					t.Error(err)
				}
			}
			fmt.Fprintf(&out, "%s/%s: %s\n", filepath.Base(dir), mc.Labels["pool"], strings.Join(can, " "))
			for _, line := range cannot {
				fmt.Fprintln(&out, line)
			}
		}
	}
	const golden = "testdata/examples.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("-want +got; read the diff, then -update if it is right\n%s", diff)
	}
}

// holds tells whether a config has something at a place such as storage.files[/etc/a].contents.
func holds(t *testing.T, config machineconfig.Config, place string) bool {
	t.Helper()
	if i, ok := strings.CutPrefix(place, "spec.kernelArguments["); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(i, "]"))
		return err == nil && n < len(config.KernelArguments)
	}
	raw, err := config.IgnitionJSON()
	if err != nil {
		t.Fatal(err)
	}
	return has(t, raw, place)
}
