package render

import (
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

var edited = flag.Int("lists", 80, "how many lists of MachineConfigs are edited at random")

// TestAMergeValidatesAsMuchAsTheWholeNeeds edits lists of MachineConfigs at random, and holds each answer against one
// that validates the whole merged config, and against the same inputs in another order.
func TestAMergeValidatesAsMuchAsTheWholeNeeds(t *testing.T) {
	good, bad := 0, 0
	for seed := range int64(*edited) {
		e := editor{r: rand.New(rand.NewSource(seed))}
		for range 3 + e.r.Intn(5) {
			e.add()
		}
		for step := range 8 {
			for range e.r.Intn(3) {
				e.edit()
			}
			pool := []string{"worker", "infra"}[e.r.Intn(2)]
			got, err := Merge(pool, e.mcs, e.defaults)
			e.r.Shuffle(len(e.mcs), func(i, j int) { e.mcs[i], e.mcs[j] = e.mcs[j], e.mcs[i] })
			other, otherErr := Merge(pool, e.mcs, e.defaults)
			whole, wholeErr := wholly(pool, e.mcs, e.defaults)
			if (err == nil) != (otherErr == nil) || (err == nil) != (wholeErr == nil) {
				t.Fatalf("seed %d, step %d:\n%v\nin another order %v\nvalidated wholly %v", seed, step, err, otherErr,
					wholeErr)
			}
			if err != nil {
				bad++
				continue
			}
			good++
			if diff := cmp.Diff(got, other, cmpopts.IgnoreUnexported(Rendered{})); diff != "" {
				t.Fatalf("seed %d, step %d (-first order +another):\n%s", seed, step, diff)
			}
			if diff := cmp.Diff(got.book.open(), other.book.open()); diff != "" {
				t.Fatalf("seed %d, step %d, who set what (-first order +another):\n%s", seed, step, diff)
			}
			if got.Name != whole.Name || string(got.Spec.Config.Raw) != string(whole.Spec.Config.Raw) {
				t.Fatalf("seed %d, step %d: %s is %s\n%s", seed, step, got.Name, whole.Name,
					cmp.Diff(string(whole.Spec.Config.Raw), string(got.Spec.Config.Raw)))
			}
			if diff := cmp.Diff(whole.Config, got.Config, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d, step %d, parsed (-wholly +got):\n%s", seed, step, diff)
			}
		}
	}
	if good < 5**edited || bad < *edited/6 {
		t.Errorf("%d lists were merged and %d refused: that shows little", good, bad)
	}
}

// wholly is what a merge is defined as.
func wholly(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	var f fold
	var inputs []Input
	names := map[string]bool{}
	for _, mc := range Order(mcs) {
		c, bad := judge(mc.Spec)
		err := blame(mc.Name, bad)
		if err != nil || names[mc.Name] || len(mc.Labels) == 0 {
			return Rendered{}, errors.Join(err, errors.New("refused"))
		}
		names[mc.Name] = true
		if c.HasIgnition {
			f.add(c.Ignition)
		}
		_, generated := mc.Annotations[generatedBy]
		inputs = append(inputs, Input{Identity: Identity{Generated: generated}, Config: c})
	}
	if len(mcs) == 0 {
		return Rendered{}, errors.New("none")
	}
	c := plainOf(inputs, d)
	c.Ignition = f.lists().into(f.rest)
	c.Ignition.Ignition.Version = machineconfig.Version
	if bad := append(machineconfig.Validate(c), machineconfig.Check(c)...); len(bad) > 0 {
		return Rendered{}, bad.Err()
	}
	if bad := disruption.Invalid(c); len(bad) > 0 {
		return Rendered{}, fmt.Errorf("every node refuses %v", bad)
	}
	if kernelDevel(c.Extensions) && !defaultKernel(c.KernelType) {
		return Rendered{}, errors.New("kernel-devel")
	}
	spec, err := c.Spec()
	if err != nil {
		return Rendered{}, err
	}
	name, err := Name(pool, spec)
	c.KernelArguments, c.Extensions = spec.KernelArguments, spec.Extensions
	return Rendered{Name: name, Spec: spec, Config: c}, err
}

// editor changes a list of MachineConfigs as people, controllers and careless callers do.
type editor struct {
	r        *rand.Rand
	mcs      []*mcfgv1.MachineConfig
	defaults Defaults
	stamp    int
}

func (e *editor) add() { e.mcs = append(e.mcs, e.object(fmt.Sprintf("%03d", e.r.Intn(1000)))) }

func (e *editor) object(name string) *mcfgv1.MachineConfig {
	c := machineconfig.Config{
		HasIgnition: e.r.Intn(8) > 0, Ignition: soundConfig(e.r),
		KernelType: []string{"", "default", "realtime"}[max(0, e.r.Intn(12)-9)],
	}
	c.KernelArguments = [][]string{nil, {"a=1 console=x"}, {"a=2", "quiet"}}[e.r.Intn(3)]
	c.Extensions = [][]string{nil, {"ipsec"}, {"kernel-devel"}}[max(0, e.r.Intn(12)-9)]
	c.FIPS = e.r.Intn(9) == 0
	c.OSImageURL = []string{"", "", "image:1"}[e.r.Intn(3)]
	spec, err := c.Spec()
	if err != nil {
		panic(err)
	}
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{RoleLabel: []string{"worker", "infra"}[e.r.Intn(2)]},
	}, Spec: spec}
	if e.r.Intn(2) == 0 {
		e.stamp++
		mc.UID, mc.ResourceVersion = types.UID(name), fmt.Sprint(e.stamp)
	}
	return mc
}

func (e *editor) edit() {
	if len(e.mcs) < 3 {
		e.add()
		return
	}
	i := e.r.Intn(len(e.mcs))
	mc := e.mcs[i]
	switch e.r.Intn(12) {
	case 0:
		e.add()
	case 1:
		e.mcs = slices.Delete(slices.Clone(e.mcs), i, i+1)
	case 2, 3, 4:
		e.mcs[i] = e.object(mc.Name)
	case 5:
		e.r.Shuffle(len(e.mcs), func(i, j int) { e.mcs[i], e.mcs[j] = e.mcs[j], e.mcs[i] })
	case 6: // a copy, as a cache hands out
		e.mcs[i] = mc.DeepCopy()
	case 7: // changed where it lies
		mc.Spec.Config.Raw = e.object("x").Spec.Config.Raw
	case 8:
		mc.Spec.KernelArguments = []string{"b=1"}
	case 9:
		mc.Labels = map[string]string{RoleLabel: "infra"}
		mc.Annotations = map[string]string{generatedBy: "x"}
	case 10:
		mc.Name += "0"
	case 11:
		e.defaults.OSImageURL = []string{"", "cluster:1"}[e.r.Intn(2)]
		if mc.ResourceVersion == "" && len(mc.Spec.Config.Raw) > 0 { // bytes that nobody vouches for
			mc.Spec.Config.Raw = slices.Replace(slices.Clone(mc.Spec.Config.Raw), 0, len(mc.Spec.Config.Raw),
				e.object("x").Spec.Config.Raw...)
		}
	}
}

// soundConfig draws configs that are each good, and meet in many entries.
func soundConfig(r *rand.Rand) ign.Config {
	c := randomConfig(r)
	for i := range c.Storage.Files {
		f := &c.Storage.Files[i]
		f.Contents.Compression, f.Contents.Verification.Hash = nil, nil
		if f.Contents.Source == nil {
			f.Overwrite = nil
		}
	}
	for i := range c.Storage.Links {
		l := &c.Storage.Links[i]
		l.Target = util.StrToPtr([]string{"/t1", "/t2"}[r.Intn(2)])
		if r.Intn(40) == 0 {
			l.Path = "/p1" // others may be below it
		}
	}
	if r.Intn(20) == 0 {
		c.Storage.Files = append(c.Storage.Files, ign.File{Node: ign.Node{Path: "/p1/below"}})
	}
	for i := range c.Systemd.Units {
		u := &c.Systemd.Units[i]
		for _, text := range []*string{u.Contents} {
			if text != nil {
				*text = "[Unit]\nDescription=" + *text + "\n"
			}
		}
		for j := range u.Dropins {
			u.Dropins[j].Contents = util.StrToPtr([]string{"", "[Unit]\n", "[Service]\n"}[r.Intn(3)])
		}
	}
	seen := map[string]bool{}
	c.Storage.Links = slices.DeleteFunc(c.Storage.Links, func(l ign.Link) bool {
		again := seen[l.Path]
		seen[l.Path] = true
		return again
	})
	c.Storage.Files = slices.DeleteFunc(c.Storage.Files, func(f ign.File) bool { return seen[f.Path] })
	c.Storage.Directories = slices.DeleteFunc(c.Storage.Directories, func(d ign.Directory) bool { return seen[d.Path] })
	return c
}

// Winner is asked by kind; every kind of the book must answer.
func TestTheWinnerIsTheLastOfTheBook(t *testing.T) {
	e := editor{r: rand.New(rand.NewSource(1))}
	for range 6 {
		e.add()
		e.mcs[len(e.mcs)-1].Name = fmt.Sprint(len(e.mcs))
		e.mcs[len(e.mcs)-1].Spec.KernelType, e.mcs[len(e.mcs)-1].Spec.Extensions = "", nil
	}
	r, err := Merge("worker", e.mcs, Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[disruption.ChangeKind]bool{}
	for _, l := range listTable {
		listed[l.kind] = true
	}
	for at, names := range r.book.open() {
		if got := r.Winner(at.kind, at.name); got != names[len(names)-1] {
			t.Errorf("%v: %s, want the last of %v", at, got, names)
		}
		if listed[at.kind] && r.book.lastOf(at) != r.Winner(at.kind, at.name) {
			t.Errorf("%v: %s when looked for, %s by the book", at, r.book.lastOf(at), r.Winner(at.kind, at.name))
		}
	}
	if (Rendered{}).Winner(disruption.KindFile, "/a") != "" {
		t.Error("nothing has a winner")
	}
}
