package render_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// store is a transpile.Store in memory.
type store map[string][]byte

func (s store) Get(key string) ([]byte, bool) {
	value, has := s[key]
	return value, has
}

func (s store) Put(key string, value []byte) { s[key] = value }

// TestTheRendererRemembersNothingWrong changes one input after the other and holds each answer against a renderer that
// has seen nothing: that of a renderer which has seen all, and that of a new process with the results of earlier ones.
func TestTheRendererRemembersNothingWrong(t *testing.T) {
	var warm render.Renderer
	stored := store{}
	d := render.Defaults{OSImageURL: "a"}
	mcs := []*mcfgv1.MachineConfig{
		cacheMc("10", "worker", plain("/a", "1")), cacheMc("20", "worker", file("/a", `,"mode":384`)),
		cacheMc("30", "infra", plain("/b", "1")),
	}
	steps := []struct {
		what   string
		change func()
	}{
		{"nothing", func() {}},
		{"contents", func() { mcs[0] = cacheMc("10", "worker", plain("/a", "2")) }},
		{"a name", func() { mcs[0].Name = "25" }},
		{"a role", func() { mcs[2].Labels[render.RoleLabel] = "worker" }},
		{"no labels", func() { mcs[2].Labels = nil }},
		{"labels again", func() { mcs[2].Labels = map[string]string{render.RoleLabel: "infra"} }},
		{"a kernel argument", func() { mcs[1].Spec.KernelArguments = []string{"a"} }},
		{"it moves to the extensions, and is refused", func() {
			mcs[1].Spec.KernelArguments, mcs[1].Spec.Extensions = nil, []string{"a"}
		}},
		{"an extension that exists", func() { mcs[1].Spec.Extensions = []string{"ipsec"} }},
		{"fips", func() { mcs[1].Spec.FIPS = true }},
		{"the image", func() { mcs[1].Spec.OSImageURL = "b" }},
		{"a mark that it is generated", func() {
			mcs[1].Annotations = map[string]string{
				"machineconfiguration.openshift.io/generated-by-controller-version": "1",
			}
		}},
		{"the default image", func() { d.OSImageURL = "c" }},
		{"the same config under a second name", func() {
			second := mcs[0].DeepCopy()
			second.Name = "99"
			mcs = append(mcs, second)
		}},
		{"two less", func() { mcs = mcs[:2] }},
		{"no config", func() { mcs[1].Spec.Config.Raw = nil }},
	}
	for _, s := range steps {
		s.change()
		for _, pool := range []string{"worker", "infra"} {
			for who, r := range map[string]*render.Renderer{"the same": &warm, "a new one": {Store: stored}} {
				got, err := r.Merge(pool, mcs, d)
				want, wantErr := render.Merge(pool, mcs, d)
				if fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Errorf("after %s, %s: error %v, fresh %v", s.what, who, err, wantErr)
				}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(render.Rendered{})); diff != "" {
					t.Errorf("after %s, %s (-fresh +warm):\n%s", s.what, who, diff)
				}
			}
		}
	}
	if len(stored) == 0 {
		t.Error("nothing was stored")
	}
	warm.Forget("worker")
	if _, err := warm.Merge("worker", mcs, d); err != nil {
		t.Error(err)
	}
}

// TestPoolsWithTheSameContents renders pools that include the same documents under names of their own: each has what a
// renderer gives that has seen no other pool. The sizes end where the names of one pool still fit into an object.
func TestPoolsWithTheSameContents(t *testing.T) {
	large := func(n int) string { return plain("/large", strings.Repeat("x", n)) }
	disputed := file("/a", `,"mode":384`)
	for sentence, contents := range map[string][]string{
		"two documents":                     {plain("/a", "1"), plain("/b", "2")},
		"they disagree":                     {plain("/a", "1"), disputed},
		"in the other order":                {disputed, plain("/a", "1")},
		"a warning names the largest":       {large(700 << 10), plain("/b", "2")},
		"it does not fit into an object":    {large(1600 << 10), plain("/b", "2")},
		"it fits with the shorter names":    {large(machineconfig.MaxContentObject - 8700), plain("/b", "2")},
		"one of them is invalid":            {plain("/a", "1"), `"storage":{"files":[{"path":"b"}]}`},
		"they are invalid together":         {plain("/a", "1"), `"storage":{"links":[{"path":"/a","target":"/b"}]}`},
		"a kernel argument and an argument": {plain("/a", "1"), `"kernelArguments":{"shouldExist":["a"]}`},
	} {
		for _, d := range []render.Defaults{{}, {LargeFiles: true}, {OSImageURL: "a"}} {
			var warm render.Renderer
			for _, pool := range []string{"p", "pool", strings.Repeat("p", 40)} {
				var mcs []*mcfgv1.MachineConfig
				for i, c := range contents {
					name := strings.Repeat(fmt.Sprintf("%d0-of-%s-", i, pool), 5)
					mcs = append(mcs, cacheMc(strings.TrimSuffix(name, "-"), pool, c))
				}
				got, err := warm.Merge(pool, mcs, d)
				want, wantErr := render.Merge(pool, mcs, d)
				if fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Errorf("%s, pool %s, %+v: error %v, fresh %v", sentence, pool, d, err, wantErr)
				}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(render.Rendered{})); diff != "" {
					t.Errorf("%s, pool %s, %+v (-fresh +warm):\n%s", sentence, pool, d, diff)
				}
				if g, w := got.Winner("file", "/a"), want.Winner("file", "/a"); g != w {
					t.Errorf("%s, pool %s: /a is from %s, fresh %s", sentence, pool, g, w)
				}
			}
		}
	}
}

func TestMergingLeavesTheInputsAlone(t *testing.T) {
	mcs := []*mcfgv1.MachineConfig{
		cacheMc("20", "worker", `"storage":{"directories":[{"path":"/d","user":{"name":"a"}}],"files":[{"path":"/a"}]}`),
		cacheMc("10", "worker",
			`"storage":{"directories":[{"path":"/d","user":{"id":1}}],"files":[{"path":"/a","mode":384}]}`),
	}
	before := [][]byte{bytes.Clone(mcs[0].Spec.Config.Raw), bytes.Clone(mcs[1].Spec.Config.Raw)}
	var r render.Renderer
	first, err := r.Merge("worker", mcs, render.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	if mcs[0].Name != "20" || !bytes.Equal(before[0], mcs[0].Spec.Config.Raw) ||
		!bytes.Equal(before[1], mcs[1].Spec.Config.Raw) {
		t.Error("the caller's list or its configs changed")
	}
	swapped := []*mcfgv1.MachineConfig{mcs[0].DeepCopy(), mcs[1].DeepCopy()}
	swapped[0].Name, swapped[1].Name = "10", "20" // the same parsed configs, merged the other way round
	if _, err := r.Merge("worker", swapped, render.Defaults{}); err != nil {
		t.Fatal(err)
	}
	again, err := r.Merge("worker", mcs, render.Defaults{})
	if err != nil || again.Name != first.Name {
		t.Errorf("%s became %s, %v", first.Name, again.Name, err)
	}
}

// TestNothingChangedParsesNothing guards what makes a controller with many pools cheap; BenchmarkMerge has the times.
func TestNothingChangedParsesNothing(t *testing.T) {
	mcs := shapes[0].corpus(100)
	var r render.Renderer
	mustMerge(t, &r, mcs)
	shuffled := make([]*mcfgv1.MachineConfig, len(mcs))
	for i, m := range mcs {
		shuffled[len(mcs)-1-i] = m.DeepCopy()
	}
	// About one small allocation for each object, to hash it; reading one takes hundreds.
	if n := testing.AllocsPerRun(20, func() { mustMerge(t, &r, shuffled) }); n > 20*float64(len(mcs)) {
		t.Errorf("looking at equal objects in another order allocates %.0f times", n)
	}
}

// TestEveryFieldCounts changes one field at a time that a merge depends on: an answer of before would be wrong.
func TestEveryFieldCounts(t *testing.T) {
	fresh := func() *mcfgv1.MachineConfig { return cacheMc("10", "worker", plain("/a", "1")) }
	for because, change := range map[string]func(*mcfgv1.MachineConfig){
		"the config": func(m *mcfgv1.MachineConfig) { m.Spec.Config.Raw = cacheMc("", "", plain("/a", "2")).Spec.Config.Raw },
		"the config's bytes": func(m *mcfgv1.MachineConfig) {
			m.Spec.Config.Raw = bytes.ReplaceAll(m.Spec.Config.Raw, []byte(",1"), []byte(",2"))
		},
		"kernel arguments":     func(m *mcfgv1.MachineConfig) { m.Spec.KernelArguments = []string{"a", "b"} },
		"extensions":           func(m *mcfgv1.MachineConfig) { m.Spec.Extensions = []string{"ipsec"} },
		"FIPS":                 func(m *mcfgv1.MachineConfig) { m.Spec.FIPS = true },
		"the kernel type":      func(m *mcfgv1.MachineConfig) { m.Spec.KernelType = "realtime" },
		"the image":            func(m *mcfgv1.MachineConfig) { m.Spec.OSImageURL = "a" },
		"the extensions image": func(m *mcfgv1.MachineConfig) { m.Spec.BaseOSExtensionsContainerImage = "a" },
	} {
		var r render.Renderer
		m := fresh()
		m.UID, m.ResourceVersion = "1", "1" // they vouch for nothing
		first, err := r.Merge("worker", []*mcfgv1.MachineConfig{m}, render.Defaults{})
		if err != nil {
			t.Fatal(err)
		}
		change(m)
		got, gotErr := r.Merge("worker", []*mcfgv1.MachineConfig{m}, render.Defaults{})
		want, wantErr := render.Merge("worker", []*mcfgv1.MachineConfig{m}, render.Defaults{})
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || got.Name != want.Name || got.Name == first.Name {
			t.Errorf("%s: %s was %s, want %s; %v, %v", because, got.Name, first.Name, want.Name, gotErr, wantErr)
		}
	}
}

// cacheMc is a MachineConfig of a role with an Ignition body, such as `"storage":{…}`.
func cacheMc(name, role, body string) *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{render.RoleLabel: role}},
		Spec: mcfgv1.MachineConfigSpec{
			Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"},` + body + `}`)},
		},
	}
}

func file(path, rest string) string {
	return fmt.Sprintf(`"storage":{"files":[{"path":%q%s}]}`, path, rest)
}

func plain(path, text string) string {
	return file(path, `,"contents":{"source":"data:,`+text+`"}`)
}
