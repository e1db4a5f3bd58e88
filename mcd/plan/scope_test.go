package plan_test

import (
	"path"
	"slices"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// everything is a config that speaks about all that has paths, on a machine with links and files in the way.
const everything = `"storage":{
  "files":[{"path":"/etc/a/b/c","contents":{"source":"data:,x"}},{"path":"/etc/a-b","append":[{"source":"data:,x"}]},{"path":"/etc/link/x","contents":{"source":"data:,x"}},{"path":"/etc/zz.conf/below","contents":{"source":"data:,x"}}],
  "directories":[{"path":"/opt/d"}],
  "links":[{"path":"/etc/l","target":"/opt/d"},{"path":"/etc/h","target":"/srv/deep/file","hard":true}]},
 "passwd":{"users":[{"name":"alice","sshAuthorizedKeys":["k"]}],"groups":[{"name":"team"}]},
 "systemd":{"units":[{"name":"a@x.service","enabled":true,"dropins":[{"name":"1.conf","contents":"[Install]\nAlso=b.socket\n"}]}]}`

func TestAScopeHasEachDirectoryBeforeWhatIsInIt(t *testing.T) {
	_, way := planOn(t, hosttest.NewMachine(), ignition(t, "", ""), ignition(t, "rendered-a", everything))
	s := way.Scope()
	if !slices.IsSorted(s.Paths) || len(slices.Compact(slices.Clone(s.Paths))) != len(s.Paths) {
		t.Errorf("the paths are not in order, or not each once: %q", s.Paths)
	}
	for _, p := range append(s.Paths, s.Read...) {
		if _, there := slices.BinarySearch(s.Paths, p); !there {
			t.Errorf("%s is read, and not looked at", p)
		}
		if _, there := slices.BinarySearch(s.Paths, path.Dir(p)); !there && path.Dir(p) != "/" {
			t.Errorf("%s is looked at, and its directory is not", p)
		}
	}
	for _, p := range []string{
		"/etc/machine-config-daemon/orig/etc/a/b/c.mcdorig", "/usr/etc/a-b", "/srv/deep/file",
		"/etc/systemd/system/a@.service", "/etc/systemd/system/b.socket", "/home/alice/.bashrc",
	} {
		if _, there := slices.BinarySearch(s.Paths, p); !there {
			t.Errorf("%s is not looked at", p)
		}
	}
	if twice := plan.ScopeOf(way.New, way.New); !slices.Equal(twice.Paths, plan.ScopeOf(way.New).Paths) {
		t.Error("a config beside itself has another scope than alone")
	}
}

func TestWhatIsNotLookedAtIsNotThere(t *testing.T) {
	m := hosttest.NewMachine()
	m.Put("/srv/deep/file", "x")
	m.Put("/opt/real/x", "behind a link")
	h := m.Host()
	if err := h.Files.Link("/etc/link", host.Entry{Target: "/opt/real"}); err != nil {
		t.Fatal(err)
	}
	_, way := planOn(t, m, ignition(t, "", ""), ignition(t, "rendered-a", everything))
	for p, seen := range observe(t, h, way.Scope()).Paths {
		if is, err := h.Files.Stat(p); err != nil || is != seen {
			t.Errorf("%s is %v, %v, and %v was observed", p, is, err, seen)
		}
	}
}
