package apply_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// linkedDirs are links that systems have in their root: Fedora CoreOS, a merged /usr, Fedora's sbin.
var linkedDirs = map[string]string{
	"/opt": "var/opt", "/home": "var/home", "/srv": "/var/srv", "/usr/local": "../var/usrlocal",
	"/var/usrlocal/sbin": "bin", "/lib": "usr/lib",
}

// withLinkedDirs makes a root with linkedDirs and the directories that they lead to.
func withLinkedDirs(t *testing.T) world {
	t.Helper()
	dir := hosttest.TempDir(t)
	furnish(t, dir)
	for _, p := range []string{"/var/opt", "/var/home", "/var/srv", "/var/usrlocal/bin", "/usr/lib"} {
		if err := os.MkdirAll(dir+p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for at, target := range linkedDirs {
		if err := os.RemoveAll(dir + at); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(dir+at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, dir+at); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{"/var/opt/kept", "/var/srv/b/y"} {
		if err := os.MkdirAll(filepath.Dir(dir+at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+at, []byte("the machine's own\n"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return rooted(dir)
}

// spellings are paths of which several are one place.
var spellings = []string{
	"/opt/app/x", "/var/opt/app/x", "/opt/kept", "/var/opt/kept", "/srv/cur/x", "/srv/a/x", "/var/srv/a/x",
	"/var/srv/cur/x", "/srv/b/y", "/usr/local/sbin/tool", "/usr/local/bin/tool", "/var/usrlocal/bin/tool",
	"/lib/sysctl.d/x.conf", "/usr/lib/sysctl.d/x.conf", "/etc/foo/x", "/var/lib/foo/x",
}

// linked makes a config of files, directories and links that lead each other elsewhere.
func linked(r *rand.Rand) machineconfig.Config {
	c := machineconfig.Config{HasIgnition: true}
	s := &c.Ignition.Storage
	named := map[string]bool{}
	picks := func(p string, rarely int) bool {
		if named[p] || r.IntN(rarely) > 0 {
			return false
		}
		named[p] = true
		return true
	}
	for _, p := range spellings {
		if !picks(p, 3) {
			continue
		}
		text := "data:," + []string{"one", "two"}[r.IntN(2)]
		s.Files = append(s.Files, ign.File{
			Node:          ign.Node{Path: p, Overwrite: ptr(true)},
			FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &text}, Mode: ptr(0o644)},
		})
	}
	for _, l := range []struct{ at, to string }{
		{"/srv/cur", "a"},
		{"/srv/cur", "/srv/b"},
		{"/var/srv/cur", "/var/srv/a"},
		{"/etc/foo", "/var/lib/foo"},
		{"/var/lib/foo", "/etc/foo"},
	} {
		if picks(l.at, 5) {
			s.Links = append(s.Links, ign.Link{
				Node: ign.Node{Path: l.at, Overwrite: ptr(true)}, LinkEmbedded1: ign.LinkEmbedded1{Target: &l.to},
			})
		}
	}
	for _, p := range []string{"/srv/a", "/etc/foo", "/var/lib/foo", "/opt/app", "/var/srv/cur"} {
		if picks(p, 5) {
			s.Directories = append(s.Directories, ign.Directory{Node: ign.Node{Path: p, Overwrite: ptr(true)}})
		}
	}
	if len(s.Files) > 0 && r.IntN(3) == 0 {
		f := &s.Files[r.IntN(len(s.Files))]
		at, target := "/srv/a/second", f.Path
		if r.IntN(2) == 0 { // The next config may say which of the names is the file the other way round.
			f.Path, at, target = at, target, at
		}
		s.Links = append(s.Links, ign.Link{
			Node:          ign.Node{Path: at, Overwrite: ptr(true)},
			LinkEmbedded1: ign.LinkEmbedded1{Target: ptr(spelledOtherwise(r, target)), Hard: ptr(true)},
		})
	}
	return c
}

// spelledOtherwise returns another path of the same place, or the same path.
func spelledOtherwise(r *rand.Rand, p string) string {
	for _, pair := range [][2]string{{"/opt/", "/var/opt/"}, {"/srv/", "/var/srv/"}, {"/lib/", "/usr/lib/"}} {
		for i := range pair {
			if rest, is := strings.CutPrefix(p, pair[i]); is && r.IntN(2) == 0 {
				return pair[1-i] + rest
			}
		}
	}
	return p
}

// isIn compares the machine with a config, path by path as the config spells them, as a user of the machine would.
func isIn(h host.Host, c machineconfig.Config) error {
	s := c.Ignition.Storage
	for _, f := range s.Files {
		text, err := h.Files.Read(f.Path)
		if want := strings.TrimPrefix(*f.Contents.Source, "data:,"); err != nil || string(text) != want {
			return fmt.Errorf("file %s: %q, %w, and not %q", f.Path, text, err, want)
		}
	}
	for _, d := range s.Directories {
		if is, err := h.Files.Stat(d.Path); err != nil || is.Kind != host.Dir {
			return fmt.Errorf("directory %s is %s, %w", d.Path, is, err)
		}
	}
	for _, l := range s.Links {
		is, err := h.Files.Stat(l.Path)
		switch {
		case err != nil:
			return err
		case l.Hard != nil && *l.Hard:
			if same, err := h.Same(l.Path, *l.Target); err != nil || !same {
				return fmt.Errorf("%s is not %s: %w", l.Path, *l.Target, err)
			}
		case is.Kind != host.Link || is.Target != *l.Target:
			return fmt.Errorf("link %s is %s", l.Path, is)
		}
	}
	return nil
}

// TestAPlaceHasOneName walks through random configs on a machine whose directories are links, and that make links
// themselves. After each update the machine is what the config says, and at the end it is as it was.
func TestAPlaceHasOneName(t *testing.T) {
	done, refused, again := 0, 0, 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := withLinkedDirs(t)
		w.open(t) // makes what a simulated machine has
		before := w.tree(t)
		var from machineconfig.Config
		for step := range 5 {
			to := linked(r)
			if step == 4 {
				to = machineconfig.Config{HasIgnition: true}
			}
			h := w.open(t)
			change, err := wayBetween(h, from, to)
			if err != nil {
				t.Fatal(err)
			}
			change = named(change, fmt.Sprint("rendered-", step))
			if step == 4 {
				change.To = "rendered-0"
			}
			p, contents := planOn(t, h, change)
			if observed, err := apply.Observe(t.Context(), h, change.Scope()); err != nil {
				t.Fatal(err)
			} else if items := drift.Items(observed, change.Old, change.New); step > 0 && len(items) > 0 {
				t.Fatalf("seed %d, step %d: nobody changed anything, and %v\nfrom %s\nto %s", seed, step, items,
					describe(from), describe(to))
			}
			if len(p.Refusals) > 0 {
				refused++
				if step == 4 {
					t.Fatalf("seed %d: the way back is refused: %v", seed, p.Refusals)
				}
				continue
			}
			if r.IntN(3) == 0 {
				was := w.tree(t)
				faulty, _ := hosttest.Wrap(h, hosttest.FailNth(1+r.IntN(2*len(p.Steps)+2)))
				ended, err := (apply.Runner{Host: faulty}).Run(t.Context(), p, contents)
				if ended.End == apply.Old && withoutOwn(w.tree(t)) != withoutOwn(was) {
					t.Fatalf("seed %d, step %d: the rollback (%v, %v) left\n%s\nof\n%s\n%s", seed, step, err, ended.Why,
						w.tree(t), was, p)
				}
				if ended.End != apply.Old {
					from, done = to, done+1
					continue
				}
			}
			ended, err := (apply.Runner{Host: h}).Run(t.Context(), p, contents)
			if err == nil && ended.Why == nil {
				err = isIn(h, to)
			}
			if err != nil || ended.End != apply.New || ended.Why != nil {
				t.Fatalf("seed %d, step %d: %v, %+v\nfrom %s\nto %s\n%s", seed, step, err, ended, describe(from),
					describe(to), p)
			}
			if change, err = wayBetween(h, to, to); err != nil {
				t.Fatal(err)
			}
			change.To = fmt.Sprint("rendered-", step)
			if p, _ := planOn(t, h, change); step < 4 && len(p.Steps) > 0 {
				t.Fatalf("seed %d, step %d: after the update something is left to do\nto %s\n%s", seed, step,
					describe(to), p)
			} else {
				again++
			}
			from, done = to, done+1
		}
		if after := withoutOwn(w.tree(t)); after != withoutOwn(before) {
			t.Fatalf("seed %d: not as before:\n%s\nbut\n%s", seed, before, after)
		}
	}
	t.Logf("%d updates, %d refusals", done, refused)
	if done < 200 || refused < 20 {
		t.Error("too little was updated or refused")
	}
}

// withoutOwn leaves out the daemon's own files, because the record stays, and directories, because those that were made
// for a file stay after it.
func withoutOwn(tree string) string {
	var kept []string
	for line := range strings.Lines(tree) {
		own := strings.HasPrefix(line, path.Dir(host.RecordPath))
		if dir := strings.Contains(line, " drwx"); !own && !dir {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func describe(c machineconfig.Config) string {
	var b strings.Builder
	for _, f := range c.Ignition.Storage.Files {
		fmt.Fprintf(&b, " %s=%s", f.Path, strings.TrimPrefix(*f.Contents.Source, "data:,"))
	}
	for _, d := range c.Ignition.Storage.Directories {
		b.WriteString(" " + d.Path + "/")
	}
	for _, l := range c.Ignition.Storage.Links {
		fmt.Fprintf(&b, " %s->%s", l.Path, *l.Target)
	}
	return b.String()
}

// TestAnotherSpellingOfAPlaceIsNoChange: whoever tidies the paths of a repository changes nothing on a machine, and a
// machine that goes back has what it had.
func TestAnotherSpellingOfAPlaceIsNoChange(t *testing.T) {
	for sentence, c := range map[string]struct{ from, to, was string }{
		"a file through a link of the system":     {"/opt/app/x", "/var/opt/app/x", ""},
		"the same in the other direction":         {"/var/opt/app/x", "/opt/app/x", ""},
		"a file that replaced the machine's own":  {"/var/opt/kept", "/opt/kept", "the machine's own\n"},
		"the same in the other direction, too":    {"/opt/kept", "/var/opt/kept", "the machine's own\n"},
		"a link to a link":                        {"/usr/local/sbin/tool", "/var/usrlocal/bin/tool", ""},
		"two spellings that both lead over links": {"/usr/local/sbin/tool", "/usr/local/bin/tool", ""},
		"a merged directory":                      {"/lib/sysctl.d/x.conf", "/usr/lib/sysctl.d/x.conf", ""},
		"a home directory":                        {"/home/core/x", "/var/home/core/x", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := withLinkedDirs(t)
			h := w.open(t)
			config := func(p string) machineconfig.Config {
				c := machineconfig.Config{HasIgnition: true}
				c.Ignition.Storage.Files = []ign.File{{
					Node:          ign.Node{Path: p, Overwrite: ptr(true)},
					FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: ptr("data:,x")}, Mode: ptr(0o644)},
				}}
				return c
			}
			bring(t, h, way(t, h, machineconfig.Config{}, config(c.from)))
			p, _ := planOn(t, h, way(t, h, config(c.from), config(c.to)))
			if len(p.Steps)+len(p.Refusals) > 0 {
				t.Fatalf("another spelling changes something:\n%s", p)
			}
			if err := isIn(h, config(c.to)); err != nil {
				t.Fatal(err)
			}
			bring(t, h, named(way(t, h, config(c.to), machineconfig.Config{}), "rendered-none"))
			if text, err := h.Files.Read(c.to); string(text) != c.was {
				t.Fatalf("%q, %v", text, err)
			}
		})
	}
}
