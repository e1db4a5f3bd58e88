package ignition

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

var pairs = flag.Int("pairs", 150, "how many random ways are walked, each there and back")

// TestAMachineThatWasMovedIsOneThatBootedThere moves machines from one random config to another and back, and compares
// each with a machine that real Ignition makes of what our server hands out.
func TestAMachineThatWasMovedIsOneThatBootedThere(t *testing.T) {
	j := need(t)
	const strands = 10
	for strand := range uint64(strands) {
		t.Run(fmt.Sprint("strand ", strand), func(t *testing.T) {
			t.Parallel()
			d := dice{rand.New(rand.NewPCG(strand, 41))}
			lab := bench{j, memory(t)}
			from, err := lab.boot(t.Context(), d.config())
			if err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for range *pairs / strands {
				to, err := lab.boot(t.Context(), d.config())
				if err != nil {
					t.Fatal(err)
				}
				if why := lab.walk(t.Context(), from, to); why != nil {
					if wrong++; wrong == 1 { // the first tells most, and making it small takes long
						why = lab.smallest(t.Context(), from, to, why)
					}
					t.Error(why)
				}
				if err := os.RemoveAll(from.root); err != nil {
					t.Fatal(err)
				}
				from = to
			}
			t.Logf("%d of %d ways, there and back, agree", *pairs/strands-wrong, *pairs/strands)
		})
	}
}

// bench is where machines are made.
type bench struct {
	judge
	dir string
}

// machine is one that Ignition made.
type machine struct {
	config ign.Config
	named  plan.Config
	root   string
	looks  tree
}

// boot makes a new machine of a config, by way of our renderer and server.
func (b bench) boot(ctx context.Context, c ign.Config) (machine, error) { return b.bear(ctx, c, false) }

// bear is boot of a machine that the server gives no secrets, or all.
func (b bench) bear(ctx context.Context, c ign.Config, withhold bool) (m machine, err error) {
	m.config = c
	raw, err := machineconfig.Config{Ignition: c}.IgnitionJSON()
	if err != nil {
		return m, err
	}
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name:   "50-worker",
		Labels: map[string]string{"machineconfiguration.openshift.io/role": "worker"},
	}}
	mc.Spec.Config.Raw = raw
	r, err := render.Merge("worker", []*mcfgv1.MachineConfig{mc}, render.Defaults{})
	if err != nil {
		return m, err
	}
	mc = &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name: r.Name, Annotations: map[string]string{v1alpha1.SecretPathsAnnotation: marksOf(c)},
	}, Spec: r.Spec}
	served, err := mcs.Compose(mcs.Input{Pool: "worker", Rendered: mc, Withhold: withhold}, mcs.Newest)
	if err != nil {
		return m, err
	}
	if m.named, err = read(mc); err != nil {
		return m, err
	}
	if m.root, err = os.MkdirTemp(b.dir, "machine-"); err != nil {
		return m, err
	}
	err = errors.Join(os.Chmod(m.root, 0o755), install(m.root))
	if err == nil {
		err = b.provision(ctx, m.root, served.Head, system{})
	}
	if err == nil {
		err = firstBoot(ctx, m.root)
	}
	if err == nil {
		m.looks, err = treeOf(m.root)
	}
	m.looks = m.looks.anyOwner(c.Storage.Links)
	if err != nil {
		return m, fmt.Errorf("booting\n%s\n%w", raw, err)
	}
	return m, nil
}

// walk moves a copy of a machine to another one's config and back.
func (b bench) walk(ctx context.Context, from, to machine) error {
	dir, err := os.MkdirTemp(b.dir, "moved-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory of the test's own
	root := filepath.Join(dir, "root")
	if err := copied(from.root, root); err != nil {
		return err
	}
	d, err := openDaemon(root)
	if err != nil {
		return err
	}
	defer d.root.Close() //nolint:errcheck // a directory of the test's own
	drifted, err := d.drift(ctx, from.named)
	if err == nil && len(drifted) > 0 {
		err = fmt.Errorf("a machine that was just born has drifted: %v", drifted)
	}
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name     string
		from, to machine
	}{{"there", from, to}, {"back", to, from}} {
		if err := d.move(ctx, way.from.named, way.to.named); err != nil {
			return fmt.Errorf("on the way %s: %w", way.name, err)
		}
		looks, err := treeOf(root)
		if err != nil {
			return err
		}
		if differ := difference(way.to.looks, left(looks, way.from.config, way.to.config).
			anyOwner(way.to.config.Storage.Links)); len(differ) > 0 {
			return fmt.Errorf("after the way %s:\n%s", way.name, strings.Join(differ, "\n"))
		}
	}
	return nil
}

// left forgets the homes of users whom only the old config has: what people keep there is theirs.
func left(looks tree, from, to ign.Config) tree {
	for _, u := range from.Passwd.Users {
		if slices.ContainsFunc(to.Passwd.Users, func(o ign.PasswdUser) bool { return o.Name == u.Name }) ||
			u.Name == "core" {
			continue
		}
		home := "/home/" + u.Name
		if u.HomeDir != nil {
			home = *u.HomeDir
		}
		for p := range looks {
			if p == home || strings.HasPrefix(p, home+"/") {
				delete(looks, p)
			}
		}
	}
	looks.prune()
	return looks
}

// smallest takes parts out of both configs as long as something is wrong, and prints what is left.
func (b bench) smallest(ctx context.Context, from, to machine, wrong error) error {
	sides := []*machine{&from, &to}
	for i := 0; i < 2*len(sides); i++ { // the second round finds what the first could not yet do without
		side := sides[i%len(sides)]
		for n := 0; n < len(without(side.config)); {
			was := *side
			var err error
			if *side, err = b.boot(ctx, without(was.config)[n]); err == nil {
				err = b.walk(ctx, from, to)
			} else {
				err = nil // not every part can be done without
			}
			if err == nil {
				*side = was
				n++
				continue
			}
			wrong = err
		}
	}
	a, errA := machineconfig.Config{Ignition: from.config}.IgnitionJSON()
	z, errZ := machineconfig.Config{Ignition: to.config}.IgnitionJSON()
	return errors.Join(fmt.Errorf("from %s\nto   %s\n%w", a, z, wrong), errA, errZ)
}

// without are the configs that lack one entry of this one.
func without(c ign.Config) (smaller []ign.Config) {
	smaller = append(smaller, less(c, c.Storage.Files, func(c *ign.Config, l []ign.File) { c.Storage.Files = l })...)
	smaller = append(smaller, less(c, c.Storage.Directories, func(c *ign.Config, l []ign.Directory) {
		c.Storage.Directories = l
	})...)
	smaller = append(smaller, less(c, c.Storage.Links, func(c *ign.Config, l []ign.Link) { c.Storage.Links = l })...)
	smaller = append(smaller, less(c, c.Systemd.Units, func(c *ign.Config, l []ign.Unit) { c.Systemd.Units = l })...)
	smaller = append(smaller, less(c, c.Passwd.Users, func(c *ign.Config, l []ign.PasswdUser) {
		c.Passwd.Users = l
	})...)
	return append(smaller, less(c, c.Passwd.Groups, func(c *ign.Config, l []ign.PasswdGroup) {
		c.Passwd.Groups = l
	})...)
}

// less are the configs with one item of a list taken out.
func less[T any](c ign.Config, list []T, set func(*ign.Config, []T)) (smaller []ign.Config) {
	for i := range list {
		s := c
		set(&s, slices.Delete(slices.Clone(list), i, i+1))
		smaller = append(smaller, s)
	}
	return smaller
}
