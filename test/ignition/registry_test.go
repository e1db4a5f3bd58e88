package ignition

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coreos/ignition/v2/tests/register"
	_ "github.com/coreos/ignition/v2/tests/registry" // fills the register
	"github.com/coreos/ignition/v2/tests/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile/kinds"
)

// inapplicable are words of cases about disks and the network, which no daemon on a running node has a say in.
var inapplicable = []string{
	"$disk", "http://", "https://", "tftp://", "s3://", `"disks"`, `"filesystems"`, `"luks"`,
	`"raid"`, "127.0.0.1",
}

// rootOf is the partition that is the machine's root; nil where the case is not about one.
func rootOf(disks []types.Disk) *types.Partition {
	for _, d := range disks {
		for _, p := range d.Partitions {
			if p.Label == "ROOT" {
				return p
			}
		}
	}
	return nil
}

// applicable are the cases of a kind that are about a root file system alone.
func applicable(kind register.TestType) (cases []types.Test) {
	for _, c := range register.Tests[kind] {
		about := slices.ContainsFunc(inapplicable, func(word string) bool { return strings.Contains(c.Config, word) })
		if !about && len(c.MntDevices) == 0 && len(c.Env) == 0 && rootOf(c.In) != nil {
			cases = append(cases, c)
		}
	}
	return cases
}

// furnish makes a directory what a case begins with.
func furnish(dir string, p *types.Partition, accounts bool) error {
	var bad []error
	for _, d := range p.Directories {
		at := filepath.Join(dir, d.Directory, d.Name)
		bad = append(bad, os.MkdirAll(at, 0o755), os.Chmod(at, os.FileMode(d.Mode)),
			os.Chown(at, d.User, d.Group)) //nolint:gosec // a mode fits
	}
	for _, f := range p.Files {
		at := filepath.Join(dir, f.Directory, f.Name)
		bad = append(bad, put(at, f.Contents), os.Chown(at, f.User, f.Group))
		if f.Mode != 0 {
			bad = append(bad, os.Chmod(at, os.FileMode(f.Mode))) //nolint:gosec // a mode fits
		}
	}
	for _, l := range p.Links {
		at := filepath.Join(dir, l.Directory, l.Name)
		bad = append(bad, os.MkdirAll(filepath.Dir(at), 0o755))
		if l.Hard {
			bad = append(bad, os.Link(filepath.Join(dir, l.Target), at))
			continue
		}
		bad = append(bad, os.Symlink(l.Target, at), os.Lchown(at, l.User, l.Group))
	}
	if accounts {
		for _, d := range []string{"etc", "home", "usr/bin", "usr/sbin"} {
			bad = append(bad, os.MkdirAll(filepath.Join(dir, d), 0o755))
		}
	}
	return errors.Join(bad...)
}

// check is the checker of Ignition's own suite: contents count where there are any, a mode where it is not 0.
func check(dir string, p *types.Partition) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	look := func(n types.Node) (os.FileInfo, string) {
		at := filepath.Join(dir, n.Directory, n.Name)
		info, err := os.Lstat(at)
		if err != nil {
			say("%v", err)
			return nil, at
		}
		if s := info.Sys().(*syscall.Stat_t); int(s.Uid) != n.User || int(s.Gid) != n.Group {
			say("%s belongs to %d:%d, not %d:%d", n.Name, s.Uid, s.Gid, n.User, n.Group)
		}
		return info, at
	}
	mode := func(n types.Node, info os.FileInfo, want int) {
		if is := int(info.Sys().(*syscall.Stat_t).Mode & 0o7777); want != 0 && is != want {
			say("%s has mode %04o, not %04o", n.Name, is, want)
		}
	}
	for _, f := range p.Files {
		if filepath.Join(f.Directory, f.Name) == ignitionPreset {
			continue // what presets ask for is compared with what systemd makes of them
		}
		if info, at := look(f.Node); info != nil {
			mode(f.Node, info, f.Mode)
			if text, err := os.ReadFile(at); f.Contents != "" && (err != nil || string(text) != f.Contents) {
				say("%s has %q, not %q (%v)", f.Name, text, f.Contents, err)
			}
		}
	}
	for _, d := range p.Directories {
		if info, _ := look(d.Node); info != nil {
			mode(d.Node, info, d.Mode)
			if !info.IsDir() {
				say("%s is no directory", d.Name)
			}
		}
	}
	for _, l := range p.Links {
		info, at := look(l.Node)
		switch target, err := os.Lstat(filepath.Join(dir, l.Target)); {
		case info == nil:
		case l.Hard && (err != nil || !os.SameFile(info, target)):
			say("%s is not the file %s", l.Name, l.Target)
		case !l.Hard:
			if to, err := os.Readlink(at); err != nil || to != l.Target {
				say("%s leads to %q, not %q", l.Name, to, l.Target)
			}
		}
	}
	for _, n := range p.RemovedNodes {
		if _, err := os.Lstat(filepath.Join(dir, n.Directory, n.Name)); err == nil {
			say("%s is still there", n.Name)
		}
	}
	return wrong
}

// systemOf are a case's configs of the image.
func systemOf(c types.Test) system {
	of := func(list []types.File) map[string]string {
		files := map[string]string{}
		for _, f := range list {
			files[filepath.Join(f.Directory, f.Name)] = f.Contents
		}
		return files
	}
	return system{runtime: of(c.SystemRuntimeDirFiles), local: of(c.SystemLocalDirFiles), vendor: of(c.SystemDirFiles)}
}

// layers are the configs that Ignition would merge for a case, the weakest first: fragments of the image, then the
// user's, of which one that the image has comes before the one that the platform gives.
func layers(c types.Test) []string {
	found, s := map[string]string{}, systemOf(c)
	for _, dir := range []map[string]string{s.vendor, s.local, s.runtime} {
		maps.Copy(found, dir)
	}
	var out []string
	for _, dir := range []string{"base.d/", "base.platform.d/file/"} {
		for _, p := range slices.Sorted(maps.Keys(found)) {
			if strings.HasPrefix(p, dir) {
				out = append(out, found[p])
			}
		}
	}
	user := c.Config
	if preempting, ok := found["user.ign"]; ok {
		user = preempting
	}
	if strings.TrimSpace(user) == "" {
		user = `{"ignition":{"version":"3.5.0"}}`
	}
	return append(out, user)
}

// experimental is no version yet: its cases are those of the versions before it once more.
const experimental, newest, ours = `"3.7.0-experimental"`, `"3.6.0"`, `"3.5.0"`

// rendered makes what a pool's nodes run of a case: each config is a MachineConfig, as somebody would write it here.
func rendered(c types.Test) (*mcfgv1.MachineConfig, error) {
	var mcs []*mcfgv1.MachineConfig
	for i, text := range layers(c) {
		text = strings.ReplaceAll(text, experimental, ours)
		mc := &mcfgv1.MachineConfig{}
		mc.Name = fmt.Sprintf("%02d-worker", i)
		mc.Labels = map[string]string{"machineconfiguration.openshift.io/role": "worker"}
		mc.Spec.Config.Raw = []byte(text)
		if strings.Contains(text, newest) { // no MachineConfig has it; a document of a repository may
			out, findings := kinds.TranslateIgnition(kinds.IgnitionInput{Source: []byte(text)})
			for _, f := range findings {
				if !f.Warning {
					return nil, fmt.Errorf("%w: %s", errRefused, f.Message)
				}
			}
			spec, err := out.Config.Spec()
			if err != nil {
				return nil, err
			}
			mc.Spec = spec
		}
		mcs = append(mcs, mc)
	}
	r, err := render.Merge("worker", mcs, render.Defaults{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}, nil
}

// verdict is what came of one case.
type verdict struct {
	// why is "" where all agree.
	why string
	// real: the suite's own checker could not tell, and the real Ignition agrees.
	real bool
}

// judged runs one case.
func (j judge) judged(t *testing.T, c types.Test, kind register.TestType) (verdict, error) {
	scratch := memory(t)
	accounts := strings.Contains(c.Config, "passwd")
	here, there := filepath.Join(scratch, "here"), filepath.Join(scratch, "there")
	for _, dir := range []string{here, there} {
		if err := errors.Join(os.Mkdir(dir, 0o755), furnish(dir, rootOf(c.In), accounts)); err != nil {
			return verdict{}, err
		}
	}
	err := bornByUs(t, here, c)
	if kind == register.NegativeTest {
		if !errors.Is(err, errRefused) {
			return verdict{why: fmt.Sprintf("Ignition refuses what the daemon ends with %v", err)}, nil
		}
		return verdict{}, nil
	}
	presets := slices.ContainsFunc(rootOf(c.Out).Files, func(f types.File) bool {
		return filepath.Join(f.Directory, f.Name) == ignitionPreset
	})
	if err == nil && !presets && len(check(here, rootOf(c.Out))) == 0 {
		return verdict{}, nil
	}
	// The suite has stand-ins for useradd and its kin, and presets are wishes: the real Ignition with the real tools
	// decides.
	theirErr := j.provision(t.Context(), there, []byte(c.Config), systemOf(c))
	if theirErr == nil {
		theirErr = firstBoot(t.Context(), there)
	}
	switch {
	case err != nil && theirErr != nil:
		return verdict{real: true}, nil
	case err != nil:
		return verdict{why: err.Error()}, nil
	case theirErr != nil:
		return verdict{why: "the daemon does what the real Ignition fails to do: " + theirErr.Error()}, nil
	}
	want, err := treeOf(there)
	if err != nil {
		return verdict{}, err
	}
	got, err := treeOf(here)
	return verdict{strings.Join(difference(want, got), "\n"), true}, err
}

// bornByUs lets the daemon bring a machine without any config into a case's.
func bornByUs(t *testing.T, root string, c types.Test) error {
	mc, err := rendered(c)
	if err != nil {
		return err
	}
	to, err := read(mc)
	if err != nil {
		return err
	}
	d, err := openDaemon(root)
	if err != nil {
		return err
	}
	defer d.root.Close() //nolint:errcheck // a directory of the test's own
	if err := d.move(t.Context(), plan.Config{}, to); err != nil {
		return err
	}
	drifted, err := d.drift(t.Context(), to)
	if err == nil && len(drifted) > 0 {
		err = fmt.Errorf("it has drifted at once: %v", drifted)
	}
	return err
}

// memory is a directory that needs no disk.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "bunsen-ignition-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// differs are the cases in which we differ on purpose: the case, what the daemon says in it, and why.
var differs = []struct{ name, says, because string }{
	{"files.customperms 3.6.0", "has setuid, setgid, sticky or unknown bits", "special bits would be dropped by every machine whose config is older than 3.6; we refuse them in all versions"},
	{"files.customperms 3.7.0-experimental", "has setuid, setgid, sticky or unknown bits", "the same"},
	{"files.customperms.pre-#2042-fix 3.2.0", "has setuid, setgid, sticky or unknown bits", "the same: Ignition drops them in silence here, and the file is not what its author wrote"},
	{"directories.defaultperms 3.6.0", `Ignition knows no key "filesystem"`, "a document of a repository is read strictly: a key that nobody knows is a mistake (a MachineConfig's are passed over, as in the cases of older versions)"},
	{"files.defaultperms 3.6.0", `Ignition knows no key "filesystem"`, "the same"},
}

// TestTheDaemonDoesWhatIgnitionsOwnSuiteExpects runs the suite that Ignition is released with.
func TestTheDaemonDoesWhatIgnitionsOwnSuiteExpects(t *testing.T) {
	j := need(t)
	for _, of := range []struct {
		name  string
		kind  register.TestType
		cases int
	}{{"positive", register.PositiveTest, 346}, {"negative", register.NegativeTest, 49}} {
		t.Run(of.name, func(t *testing.T) {
			agreed, real := 0, 0
			cases := applicable(of.kind)
			for _, c := range cases {
				v, err := j.judged(t, c, of.kind)
				i := slices.IndexFunc(differs, func(d struct{ name, says, because string }) bool {
					return d.name == c.Name
				})
				switch {
				case err != nil:
					t.Errorf("%s: %v", c.Name, err)
				case v.why == "" && i >= 0:
					t.Errorf("%s agrees: take it off the list", c.Name)
				case v.why == "":
					agreed++
					if v.real {
						real++
					}
				case i < 0 || !strings.Contains(v.why, differs[i].says):
					t.Errorf("%s: %s", c.Name, v.why)
				}
			}
			t.Logf("%d of %d agree, %d of them as the real Ignition says where the suite's own checker cannot tell",
				agreed, len(cases), real)
			if len(cases) != of.cases {
				t.Errorf("the suite has %d applicable cases, not %d: look at those that came or went", len(cases),
					of.cases)
			}
		})
	}
}
