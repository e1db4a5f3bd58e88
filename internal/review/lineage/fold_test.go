package lineage

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// TestItemsAreWhatIsRendered holds the lineage against render.Merge: for random layers, the same items, the same values
// in them, and for each the same winner.
func TestItemsAreWhatIsRendered(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	rendered, contested := 0, 0
	for n := range 300 {
		mcs := randomMachineConfigs(t, r)
		want, err := render.Merge("worker", mcs, render.Defaults{})
		if err != nil {
			continue // a list that no machine could take
		}
		rendered++
		layers, err := LayersOf(mcs, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := New(layers, Options{Mask: func(_,
			content string,
		) secretmask.Masked {
			return secretmask.Masked{Text: content}
		}})
		if diff := cmp.Diff(valuesOf(want.Config), valuesIn(l)); diff != "" {
			t.Fatalf("list %d of %v (-rendered +lineage):\n%s", n, want.Inputs, diff)
		}
		for _, item := range l.All() {
			last, _ := l.Last(item.Kind, item.Name)
			winner := want.Winner(item.Kind, item.Name)
			if item.Kind != disruption.KindIgnition && item.Kind != KindExtensionsImage &&
				(last.Layer != winner || item.Writers[len(item.Writers)-1].Layer != winner) {
				t.Fatalf("list %d: %s %s was written last by %q, in %v, and render says %q", n, item.Kind, item.Name,
					last.Layer, item.Writers, winner)
			}
			if len(item.Writers) > 1 {
				contested++
			}
		}
	}
	if rendered < 100 || contested < 500 {
		t.Errorf("only %d lists were rendered and %d items met: the test has lost its subject", rendered, contested)
	}
}

// valuesIn lists every leaf of the lineage.
func valuesIn(l *Lineage) map[string]string {
	out := map[string]string{}
	for k, touches := range l.touched {
		f := l.fold(touches)
		for _, x := range f.trails {
			out[f.list.path+" "+k.name+" "+x.leaf.name] = x.leaf.raw
		}
		if len(f.trails) == 0 {
			out[f.list.path+" "+k.name] = "nothing"
		}
	}
	return out
}

// valuesOf lists every leaf of a rendered config, but for the `overwrite` that the renderer adds itself.
func valuesOf(c machineconfig.Config) map[string]string {
	out := map[string]string{}
	for i := range lists {
		for n, name := range lists[i].keys(c.Ignition) {
			part := lists[i].cut(c.Ignition, n)
			item, ok := lists[i].item(part)
			if !ok {
				continue
			}
			all := leaves(item, lists[i].root(0), lists[i].key)
			for _, x := range all {
				out[lists[i].path+" "+name+" "+x.name] = x.raw
			}
			if len(all) == 0 {
				out[lists[i].path+" "+name] = "nothing"
			}
		}
	}
	return out
}

// TestEveryWriterWroteTheValue: whoever is said to have written a value has it in the layer at the very path.
func TestEveryWriterWroteTheValue(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	chains := 0
	for range 150 {
		layers, err := LayersOf(randomMachineConfigs(t, r), nil)
		if err != nil {
			t.Fatal(err)
		}
		l := New(layers, Options{})
		for k, touches := range l.touched {
			f := l.fold(touches)
			for _, x := range f.trails {
				for i, w := range append(slices.Clone(x.replaced), x.write) {
					if got := at(t, layers[w.layer].Config, w.path); w.leaf.name != "mode" && got != w.leaf.raw {
						t.Fatalf("%v %s: layer %s has %q at %s, not %q", k, x.leaf.name, layers[w.layer].Name, got,
							w.path, w.leaf.raw)
					}
					if i > 0 && w.layer <= x.replaced[i-1].layer {
						t.Fatalf("%v %s: layer %d comes after layer %d", k, x.leaf.name, w.layer, x.replaced[i-1].layer)
					}
					chains += min(i, 1)
				}
			}
		}
	}
	if chains < 200 {
		t.Errorf("only %d values were replaced: the test has lost its subject", chains)
	}
}

func at(t *testing.T, c machineconfig.Config, path string) string {
	t.Helper()
	raw, err := json.Marshal(c.Ignition)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for _, step := range strings.Split(path, ".")[1:] {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(x) {
				return "no " + path
			}
			v = x[i]
		}
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// randomMachineConfigs draws from few names, so that most of them meet in some.
func randomMachineConfigs(t *testing.T, r *rand.Rand) []*mcfgv1.MachineConfig {
	t.Helper()
	mcs := make([]*mcfgv1.MachineConfig, 2+r.Intn(4))
	for i := range mcs {
		mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("%d0-x", r.Intn(9)*10+i),
			Labels: map[string]string{render.RoleLabel: []string{"worker", "infra"}[r.Intn(2)]},
		}}
		mc.Spec.KernelType = []string{"", "", "default", "realtime", "64k-pages"}[r.Intn(5)]
		mc.Spec.FIPS = r.Intn(4) == 0
		mc.Spec.OSImageURL = []string{"", "quay.io/a", "quay.io/b"}[r.Intn(3)]
		if r.Intn(4) == 0 {
			mc.Annotations = map[string]string{generatedBy: "x"}
		}
		mc.Spec.KernelArguments = []string{"quiet", "a=1 b=2", `x="c d"`}[:r.Intn(4)]
		mc.Spec.Extensions = []string{"usbguard", "ipsec"}[:r.Intn(3)]
		if r.Intn(8) > 0 {
			raw, err := machineconfig.Config{Ignition: randomConfig(r)}.IgnitionJSON()
			if err != nil {
				t.Fatal(err)
			}
			mc.Spec.Config = runtime.RawExtension{Raw: raw}
		}
		mcs[i] = mc
	}
	return mcs
}

func randomConfig(r *rand.Rand) ign.Config {
	c := ign.Config{Ignition: ign.Ignition{Version: "3.5.0"}}
	for _, p := range r.Perm(5) {
		n := ign.Node{Path: fmt.Sprintf("/p%d", p)}
		switch r.Intn(4) {
		case 0:
			n.User.Name = some(r, "alice", "bob")
		case 1:
			n.User.ID = util.IntToPtr(r.Intn(3))
			n.Group.Name = some(r, "wheel")
		case 2:
			n.Group.ID = util.IntToPtr(7)
		}
		switch r.Intn(7) {
		case 0, 1, 2, 3:
			c.Storage.Files = append(c.Storage.Files, randomFile(r, n))
		case 4:
			d := ign.Directory{Node: n}
			if r.Intn(2) == 0 {
				d.Mode = util.IntToPtr(r.Intn(0o777))
			}
			c.Storage.Directories = append(c.Storage.Directories, d)
		case 5:
			c.Storage.Links = append(c.Storage.Links,
				ign.Link{Node: n, LinkEmbedded1: ign.LinkEmbedded1{Target: util.StrToPtr(fmt.Sprint("/t", r.Intn(3)))}})
		}
	}
	for _, n := range r.Perm(3)[:r.Intn(3)] {
		u := ign.Unit{Name: fmt.Sprintf("u%d.service", n), Contents: some(r, "[Unit]\nDescription=a\n",
			"[Unit]\nDescription=b\n")}
		if r.Intn(2) == 0 {
			u.Enabled = util.BoolToPtr(r.Intn(2) == 0)
		}
		if r.Intn(3) == 0 {
			u.Mask = util.BoolToPtr(r.Intn(2) == 0)
		}
		for _, d := range r.Perm(3)[:r.Intn(3)] {
			u.Dropins = append(u.Dropins, ign.Dropin{
				Name:     fmt.Sprintf("%d.conf", d),
				Contents: some(r, "[Unit]\n", "[Service]\n"),
			})
		}
		c.Systemd.Units = append(c.Systemd.Units, u)
	}
	randomRest(r, &c)
	return c
}

func randomFile(r *rand.Rand, node ign.Node) ign.File {
	f := ign.File{Node: node}
	f.Contents.Source = some(r, "data:,1", "data:,2")
	if f.Contents.Source != nil && r.Intn(4) == 0 {
		f.Contents = ign.Resource{
			Source:      util.StrToPtr("data:;base64,H4sIAAAAAAACA6vKLAAARpUdQgMAAAA="),
			Compression: util.StrToPtr("gzip"),
		}
	}
	f.Overwrite = util.BoolToPtr(r.Intn(2) == 0 && f.Contents.Source != nil)
	if r.Intn(3) == 0 {
		f.Append = []ign.Resource{{Source: some(r, "data:,3", "data:,4")}}
	}
	if r.Intn(2) == 0 {
		f.Mode = util.IntToPtr(r.Intn(0o777))
	}
	return f
}

func randomRest(r *rand.Rand, c *ign.Config) {
	for _, n := range r.Perm(2)[:r.Intn(3)] {
		u := ign.PasswdUser{
			Name: fmt.Sprintf("user%d", n), PasswordHash: some(r, "h1", "h2"),
			HomeDir: some(r, "/home/x", "/var/home/x"),
		}
		for _, k := range r.Perm(3)[:r.Intn(3)] {
			u.SSHAuthorizedKeys = append(u.SSHAuthorizedKeys, ign.SSHAuthorizedKey(fmt.Sprintf("key%d", k)))
		}
		for _, k := range r.Perm(3)[:r.Intn(3)] {
			u.Groups = append(u.Groups, ign.Group(fmt.Sprintf("group%d", k)))
		}
		c.Passwd.Users = append(c.Passwd.Users, u)
	}
	for _, n := range r.Perm(3)[:r.Intn(2)] {
		c.Passwd.Groups = append(c.Passwd.Groups, ign.PasswdGroup{
			Name: fmt.Sprintf("group%d", n),
			Gid:  util.IntToPtr(r.Intn(9)),
		})
	}
	for _, n := range r.Perm(4)[:r.Intn(3)] {
		arg := ign.KernelArgument(fmt.Sprintf("k%d", n))
		if r.Intn(2) == 0 {
			c.KernelArguments.ShouldExist = append(c.KernelArguments.ShouldExist, arg)
		} else {
			c.KernelArguments.ShouldNotExist = append(c.KernelArguments.ShouldNotExist, arg)
		}
	}
	device := "/dev/sd" + string(rune('a'+r.Intn(2)))
	if r.Intn(3) == 0 {
		c.Storage.Filesystems = append(c.Storage.Filesystems, ign.Filesystem{
			Device: device, Format: util.StrToPtr([]string{"xfs", "ext4"}[r.Intn(2)]), Path: some(r, "/data"),
			Label:   some(r, "d"),
			Options: []ign.FilesystemOption{"-f"}, MountOptions: []ign.MountOption{"noatime"},
		})
	}
	if r.Intn(3) == 0 {
		c.Storage.Disks = append(c.Storage.Disks, ign.Disk{
			Device: device, WipeTable: util.BoolToPtr(r.Intn(2) == 0),
			Partitions: []ign.Partition{
				{Number: 1 + r.Intn(2), SizeMiB: util.IntToPtr(r.Intn(900))},
			},
		})
	}
	if r.Intn(3) == 0 {
		c.Ignition.Security.TLS.CertificateAuthorities = []ign.Resource{
			{Source: util.StrToPtr(fmt.Sprint("data:,ca", r.Intn(2)))},
		}
		c.Ignition.Timeouts.HTTPTotal = util.IntToPtr(r.Intn(9))
	}
}

// some is one of the values, or nil.
func some(r *rand.Rand, values ...string) *string {
	if i := r.Intn(len(values) + 1); i < len(values) {
		return &values[i]
	}
	return nil
}

// TestAllCostsEachEntryOnce counts what is merged, not time: each layer's entries once, however many layers there are.
func TestAllCostsEachEntryOnce(t *testing.T) {
	var layers []Layer
	for n := range 50 {
		c := ign.Config{}
		for i := range 20 {
			c.Storage.Files = append(c.Storage.Files, ign.File{Node: ign.Node{Path: fmt.Sprintf("/etc/%d/%d", n, i)}})
		}
		layers = append(layers, Layer{
			Name: fmt.Sprint(n), Config: machineconfig.Config{HasIgnition: true, Ignition: c},
			Origin: origin.Map{},
		})
	}
	l := New(layers, Options{})
	total := 0
	for _, touches := range l.touched {
		total += len(touches)
	}
	if items := l.All(); len(items) != 1000 || total != 1000 || items[0].Kind != disruption.KindFile {
		t.Errorf("%d items of %d touches, want 1000 of 1000", len(items), total)
	}
}

func BenchmarkAll(b *testing.B) {
	for _, n := range []int{100, 1000} {
		var layers []Layer
		for i := range n {
			c := ign.Config{}
			for j := range 5 {
				c.Storage.Files = append(c.Storage.Files, ign.File{
					Node: ign.Node{Path: fmt.Sprintf("/etc/%d/%d", i, j)},
					FileEmbedded1: ign.FileEmbedded1{
						Mode:     util.IntToPtr(0o644),
						Contents: ign.Resource{Source: util.StrToPtr("data:,hello")},
					},
				})
			}
			layers = append(layers, Layer{Name: fmt.Sprint(i), Config: machineconfig.Config{
				HasIgnition: true,
				Ignition:    c,
			}})
		}
		b.Run(fmt.Sprint(n, " layers of 5 files"), func(b *testing.B) {
			for b.Loop() {
				New(layers, Options{}).All()
			}
		})
	}
}
