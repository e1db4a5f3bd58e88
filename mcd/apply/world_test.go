package apply_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// world is a machine that outlives those who act on it.
type world struct {
	// open is what a daemon does that starts.
	open func(*testing.T) host.Host
	// tree is all that is on its disk, but for the daemon's own state.
	tree func(*testing.T) string
	// cut is a power cut; nil where there is none to be had.
	cut func(*rand.Rand)
	// booted is the tree that the machine found when it booted last, and how often it has; nil where nobody knows.
	booted func() (tree string, boots int)
	// files is the tree without what is staged.
	files func() string
	// bootsOld lets no new OS boot; nil where one always does.
	bootsOld func(bool)
	// trap is linux.Root's for all that is opened from now on; nil where there is none.
	trap func(func(call, path string) error)
	// close ends the daemons that were opened; nil where that is not needed.
	close func()
}

// worlds are the machines that everything here is tried on.
var worlds = map[string]func(*testing.T) world{
	"in memory": func(*testing.T) world { return inMemory(newMachine()) },
	"with a boot loader": func(*testing.T) world {
		m := newMachine()
		m.FixKargs("quiet")
		return inMemory(m)
	},
	"rooted": func(t *testing.T) world {
		dir := hosttest.TempDir(t)
		furnish(t, dir)
		return rooted(dir)
	},
}

func inMemory(m *hosttest.Machine) world {
	return world{
		open: func(*testing.T) host.Host { return m.Host() },
		tree: func(*testing.T) string {
			text, _, _ := strings.Cut(m.String(), "\njournal ")
			return text
		},
		cut:      m.PowerCut,
		bootsOld: func(old bool) { m.BootsOld = old },
		booted:   m.Booted,
		files:    m.Tree,
	}
}

func rooted(dir string) world {
	var trap func(call, path string) error
	var opened []*files.Root
	closeAll := func() {
		for _, root := range opened {
			root.Close()
		}
		opened = nil
	}
	return world{
		open: func(t *testing.T) host.Host {
			t.Helper()
			h, root, err := linux.OpenSimulated(dir, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			root.Trap(trap)
			if opened = append(opened, root); len(opened) == 1 {
				t.Cleanup(closeAll)
			}
			return h
		},
		tree:  func(t *testing.T) string { return treeOf(t, dir) },
		trap:  func(f func(call, path string) error) { trap = f },
		close: closeAll,
	}
}

// treeOf prints a directory: paths, modes, owners, contents, and which are names of one file. The daemon's state is
// left out; so are counts of boots and empty directories of enablement, which systemctl makes and removes as it likes.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	first := map[uint64]string{} // names of files, by inode
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p := strings.TrimPrefix(at, dir)
		if p == host.StateDir || p == "/lost+found" {
			return fs.SkipDir
		}
		if ext := filepath.Ext(p); d.IsDir() && (ext == ".wants" || ext == ".requires" || ext == ".upholds") {
			if left, err := os.ReadDir(at); err == nil && len(left) == 0 {
				return nil
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sys := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %v %d:%d", p, info.Mode(), sys.Uid, sys.Gid)
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			if strings.HasSuffix(p, "simulated-os.json") {
				_, next, _ := strings.Cut(string(text), `"Next"`)
				next, _, _ = strings.Cut(next, `"Boots"`)
				text = []byte(next)
			}
			fmt.Fprintf(&b, " %q", text)
			if other, again := first[sys.Ino]; again {
				b.WriteString(" = " + other)
			} else {
				first[sys.Ino] = p
			}
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			b.WriteString(" -> " + to)
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// way makes the transition that the tests walk, at a given cost.
func way(t *testing.T, h host.Host, from, to machineconfig.Config, actions ...disruption.Action) plan.Transition {
	t.Helper()
	w, err := wayBetween(h, from, to, actions...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// wayBetween is way for who has no test.
func wayBetween(h host.Host, from, to machineconfig.Config, actions ...disruption.Action) (plan.Transition, error) {
	accounts, err := apply.Accounts(context.Background(), h)
	if err != nil {
		return plan.Transition{}, err
	}
	w := plan.Transition{
		From: "rendered-a", To: "rendered-b", Old: plan.DesiredOf(from, accounts),
		New: plan.DesiredOf(to, accounts),
	}
	w.Decision.Actions = actions
	if p := append(w.Old.Problems, w.New.Problems...); len(p) > 0 {
		return w, fmt.Errorf("the config has problems: %v", p)
	}
	return apply.Place(h, w)
}

// planOn looks at the machine and works out the plan; the record's contents are the new config's name.
func planOn(t *testing.T, h host.Host, w plan.Transition) (plan.Plan, map[host.Digest][]byte) {
	t.Helper()
	observed, err := apply.Observe(t.Context(), h, w.Scope())
	if err != nil {
		t.Fatal(err)
	}
	return w.Plan(observed, []byte(w.To))
}

// named gives the new config a name of its own, so that its record differs from the others'.
func named(w plan.Transition, name string) plan.Transition {
	w.To = name
	return w
}

// bring puts the machine into a config, whatever it was in.
func bring(t *testing.T, h host.Host, w plan.Transition) {
	t.Helper()
	p, contents := planOn(t, h, w)
	if done, err := (apply.Runner{Host: h}).Run(t.Context(), p, contents); err != nil || done.End != apply.New ||
		done.Why != nil {
		t.Fatalf("%+v, %v\n%s", done, err, p)
	}
}

// remoteTexts are the contents of remote files, which every machine has downloaded.
var remoteTexts = []string{"a system extension", "a newer system extension"}

// downloaded are the files of a content store with remoteTexts.
func downloaded() map[string]string {
	all := map[string]string{}
	for _, text := range remoteTexts {
		all[host.ContentDir+"/"+string(host.DigestOf([]byte(text)))] = text
	}
	return all
}

// newMachine is a machine in memory that has downloaded remoteTexts.
func newMachine() *hosttest.Machine {
	m := hosttest.NewMachine()
	for p, text := range downloaded() {
		m.Put(p, text)
	}
	return m
}

// remoteFiles are files that a config names by their hash: at a path of the config alone, and at one that the machine
// has.
func remoteFiles(r *rand.Rand) (all []ign.File) {
	for _, p := range []string{"/opt/remote.raw", "/etc/came-with-the-machine"} {
		if r.IntN(3) == 0 {
			continue
		}
		source, hash := "https://example.com/a", "sha256-"+string(host.DigestOf([]byte(remoteTexts[r.IntN(2)])))
		f := ign.File{Node: ign.Node{Path: p, Overwrite: ptr(true)}}
		f.Contents.Source, f.Contents.Verification.Hash = &source, &hash
		f.Mode = []*int{nil, ptr(0o600)}[r.IntN(2)]
		all = append(all, f)
	}
	return all
}

// generate makes a config out of a few paths and units, so that two of them often have the same.
func generate(r *rand.Rand) machineconfig.Config {
	var c machineconfig.Config
	c.HasIgnition = true
	texts := []string{"", "one\n", "two\n", "three\n"}
	for _, p := range []string{
		"/etc/chrony.conf", "/etc/new/deep/file", "/etc/new/other", "/etc/motd", "/opt/x/y",
		"/etc/passwd.d/z", "/etc/zz.conf",
	} {
		if r.IntN(2) == 0 {
			continue
		}
		f := ign.File{Node: ign.Node{Path: p}}
		source := "data:," + strings.TrimSpace(texts[r.IntN(4)])
		if r.IntN(4) == 0 {
			f.Append = []ign.Resource{{Source: &source}, {Source: &source}}
		} else {
			f.Contents.Source = &source
		}
		if r.IntN(2) == 0 {
			mode := []int{0o600, 0o644, 0o755}[r.IntN(3)]
			f.Mode = &mode
		}
		if r.IntN(3) == 0 {
			uid := 1000
			f.User.ID = &uid
		}
		c.Ignition.Storage.Files = append(c.Ignition.Storage.Files, f)
	}
	for _, name := range []string{
		"a.service", "b.timer", "vendor.service", "echo@.service", "echo@one.service",
		"preset.service",
	} {
		if r.IntN(2) == 0 {
			continue
		}
		c.Ignition.Systemd.Units = append(c.Ignition.Systemd.Units, unit(r, name))
	}
	if target := "chrony.conf"; r.IntN(2) == 0 {
		c.Ignition.Storage.Links = []ign.Link{{
			Node:          ign.Node{Path: "/etc/alias"},
			LinkEmbedded1: ign.LinkEmbedded1{Target: &target},
		}}
	}
	c.Ignition.Storage.Links = append(c.Ignition.Storage.Links, secondNames(r, c.Ignition.Storage.Files)...)
	for _, p := range []string{"/etc/new", "/etc/new/deep", "/srv/made", "/usr/lib"} {
		if r.IntN(3) == 0 {
			d := ign.Directory{Node: ign.Node{Path: p}}
			if r.IntN(2) == 0 {
				d.Mode = []*int{ptr(0o700), ptr(0o755)}[r.IntN(2)]
			}
			if r.IntN(3) == 0 {
				d.Group.ID = ptr(10)
			}
			c.Ignition.Storage.Directories = append(c.Ignition.Storage.Directories, d)
		}
	}
	c.Ignition.Passwd = passwd(r)
	c.KernelArguments = []string{"quiet", "nosmt nokaslr", "debug"}[:r.IntN(4)]
	c.OSImageURL = []string{"", "registry.example/os:2"}[r.IntN(2)]
	c.KernelType = []string{"", "realtime"}[r.IntN(2)]
	c.Extensions = []string{"usbguard", "sysstat"}[:r.IntN(3)]
	return c
}

// secondNames makes hard links to some of the files, before them and after them in the order of paths.
func secondNames(r *rand.Rand, files []ign.File) (links []ign.Link) {
	for _, p := range []string{"/etc/2nd", "/etc/zzz/2nd"} {
		if len(files) > 0 && r.IntN(3) > 0 {
			target := files[r.IntN(len(files))].Path
			links = append(links, ign.Link{Node: ign.Node{Path: p}, LinkEmbedded1: ign.LinkEmbedded1{
				Target: &target,
				Hard:   ptr(true),
			}})
		}
	}
	return links
}

func unit(r *rand.Rand, name string) ign.Unit {
	u := ign.Unit{Name: name}
	if r.IntN(3) > 0 {
		text := []string{
			"[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target\n",
			"[Service]\nExecStart=/bin/a\n[Install]\nRequiredBy=x.target y.target\nAlso=b.timer\n",
			"[Service]\nExecStart=/bin/static\n",
		}[r.IntN(3)]
		u.Contents = &text
	}
	yes, no := true, false
	u.Enabled = []*bool{nil, &yes, &no}[r.IntN(3)]
	u.Mask = []*bool{nil, nil, &yes, &no}[r.IntN(4)]
	if r.IntN(3) == 0 {
		text := []string{"", "[Unit]\n", "[Service]\nNice=1\n"}[r.IntN(3)]
		u.Dropins = []ign.Dropin{{Name: "10-x.conf", Contents: &text}}
	}
	return u
}

func ptr[T any](v T) *T { return &v }

// passwd makes accounts: core and guest were there before any config, alice and carol are not; carol says her number.
func passwd(r *rand.Rand) (p ign.Passwd) {
	for _, name := range []string{"core", "guest", "alice", "carol"} {
		if r.IntN(2) == 0 {
			continue
		}
		u := ign.PasswdUser{Name: name}
		if name == "carol" {
			u.UID = ptr(1700)
		}
		u.Shell = []*string{nil, ptr("/bin/zsh"), ptr("/sbin/nologin")}[r.IntN(3)]
		u.Gecos = []*string{nil, ptr("One of us")}[r.IntN(2)]
		u.PasswordHash = []*string{nil, ptr("$6$one"), ptr("$6$two"), ptr("")}[r.IntN(4)]
		u.Groups = [][]ign.Group{nil, {"wheel"}, {"wheel", "core"}}[r.IntN(3)]
		if r.IntN(2) == 0 {
			u.SSHAuthorizedKeys = []ign.SSHAuthorizedKey{"ssh-ed25519 AAAA"}
		}
		if name != "core" && r.IntN(5) == 0 {
			u.ShouldExist = ptr(false)
		}
		p.Users = append(p.Users, u)
	}
	if r.IntN(2) == 0 {
		p.Groups = append(p.Groups, ign.PasswdGroup{Name: "team"})
	}
	if r.IntN(3) == 0 {
		p.Groups = append(p.Groups, ign.PasswdGroup{
			Name: "numbered", Gid: ptr(1800),
			ShouldExist: []*bool{nil, ptr(false)}[r.IntN(2)],
		})
	}
	return p
}
