package apply_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// hostile is a machine on which uid 1500, named app, wants to be root.
type hostile struct {
	host.Host
	dir string
}

func newHostile(t *testing.T) hostile {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it gives files to other users, which takes root: run the tests as root, as make test does in CI")
	}
	dir := t.TempDir()
	h, root, err := linux.OpenSimulated(dir, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	m := hostile{h, dir}
	for p, text := range map[string]string{
		"/etc/passwd": "app:x:1500:1500::/home/app:/bin/sh\n",
		"/etc/group":  "app:x:1500:\n",
	} {
		old, err := os.ReadFile(m.at(p))
		if err = errors.Join(err, os.WriteFile(m.at(p), append(old, text...), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(m.at("/root/.ssh"), 0o700), os.MkdirAll(m.at("/etc/profile.d"),
		0o755)); err != nil {
		t.Fatal(err)
	}
	m.owned(t, "/home/app", 1500)
	return m
}

func (m hostile) at(p string) string { return filepath.Join(m.dir, p) }

// owned makes a directory of a user.
func (m hostile) owned(t *testing.T, p string, uid int) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(m.at(p), 0o755), os.Chown(m.at(p), uid, uid)); err != nil {
		t.Fatal(err)
	}
}

// isCoreOS makes the machine one whose sshd reads the directory of keys.
func (m hostile) isCoreOS(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"/usr", "/usr/libexec"} {
		if err := m.Host.Files.Mkdir(dir, host.Entry{Kind: host.Dir, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	for p, text := range map[string]string{"/etc/os-release": coreOS, keyReader: ""} {
		if err := m.Host.Files.Write(p, host.Entry{Kind: host.File, Mode: 0o755}, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// link makes a link of a user.
func (m hostile) link(t *testing.T, p, target string, uid int) {
	t.Helper()
	if err := errors.Join(os.Symlink(target, m.at(p)), os.Lchown(m.at(p), uid, uid)); err != nil {
		t.Fatal(err)
	}
}

// untouched checks that nobody put anything where only root may.
func (m hostile) untouched(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"/root/.ssh", "/etc/profile.d"} {
		if in, err := os.ReadDir(m.at(dir)); err != nil || len(in) > 0 {
			t.Errorf("%s has %v in it, %v", dir, in, err)
		}
	}
}

func configOf(t *testing.T, name, body string) plan.Config {
	t.Helper()
	c, err := machineconfig.Parse(
		mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"}` + body +
			`}`)}})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Config{Name: name, Config: c}
}

// plan works out the way between two configs.
func (m hostile) plan(t *testing.T, from, to plan.Config) (plan.Plan, map[host.Digest][]byte) {
	t.Helper()
	accounts, err := apply.Accounts(t.Context(), m.Host)
	if err != nil {
		t.Fatal(err)
	}
	way, err := apply.Place(m.Host, plan.NewTransition(from, to, plan.Rules{Policy: disruption.Default()}, accounts))
	if err != nil {
		t.Fatal(err)
	}
	way.Decision = disruption.Decision{} // no reboot
	seen, err := apply.Observe(t.Context(), m.Host, way.Scope())
	if err != nil {
		t.Fatal(err)
	}
	return way.Plan(seen, []byte(to.Name))
}

const (
	keysOfApp = `,"passwd":{"users":[{"name":"app","sshAuthorizedKeys":["ssh-ed25519 k"]}]}`
	fileOfApp = `,"storage":{"files":[{"path":"/home/app/conf/app.sh","user":{"name":"app"},"contents":{"source":"data:,x"}}]}`
)

// TestAnUnsafePathIsRefusedBeforeAnyStep tells why, on the list of what each node checks.
func TestAnUnsafePathIsRefusedBeforeAnyStep(t *testing.T) {
	for says, c := range map[string]struct {
		plant func(t *testing.T, m hostile)
		body  string
		want  []string // parts of the refusal; none for a config that is taken
	}{
		"nothing is wrong": {func(*testing.T, hostile) {}, keysOfApp + fileOfApp, nil},
		"a link to root's directory on the way to a file": {
			func(t *testing.T, m hostile) { m.link(t, "/home/app/conf", "/etc/profile.d", 1500) }, fileOfApp,
			[]string{"/home/app/conf/app.sh", "the link /home/app/conf is controlled by uid 1500 and leads to " +
				"/etc/profile.d, which belongs to uid 0", "remove the link"},
		},
		"a link to root's keys as .ssh": {
			func(t *testing.T, m hostile) { m.link(t, "/home/app/.ssh", "/root/.ssh", 1500) }, keysOfApp,
			[]string{
				"/home/app/.ssh/authorized_keys", "the link /home/app/.ssh is controlled by uid 1500",
				"belongs to uid 0",
			},
		},
		"a link to root's keys as the directory of keys": {
			func(t *testing.T, m hostile) {
				m.isCoreOS(t)
				m.owned(t, "/home/app/.ssh", 1500)
				m.link(t, "/home/app/.ssh/authorized_keys.d", "../../../root/.ssh", 1500)
			}, keysOfApp,
			[]string{"/home/app/.ssh/authorized_keys.d/ignition", "the link /home/app/.ssh/authorized_keys.d is " +
				"controlled by uid 1500"},
		},
		"a link of the user to an own directory": {
			func(t *testing.T, m hostile) {
				m.owned(t, "/home/app/dotfiles", 1500)
				m.link(t, "/home/app/.ssh", "dotfiles", 1500)
			}, keysOfApp, nil,
		},
		"a home directory of root": {
			func(t *testing.T, m hostile) { m.owned(t, "/home/app", 0) }, keysOfApp,
			[]string{"passwd.users app /home/app", "belongs to uid 0 and not to uid 1500", "chown"},
		},
		"a home directory that is a link to root's": {
			func(t *testing.T, m hostile) {
				must(t, os.Remove(m.at("/home/app")))
				m.link(t, "/home/app", "/root", 0)
			}, keysOfApp,
			[]string{"passwd.users app /home/app", "it is a link to /root", "belongs to uid 0 and not to uid 1500"},
		},
		"a home directory that is a link to nothing": {
			func(t *testing.T, m hostile) {
				must(t, os.Remove(m.at("/home/app")))
				m.link(t, "/home/app", "/none", 0)
			}, keysOfApp,
			[]string{"passwd.users app /home/app", "a link that leads to no directory"},
		},
		"a home directory that is root's link to the user's": {
			func(t *testing.T, m hostile) {
				must(t, os.Remove(m.at("/home/app")))
				m.owned(t, "/srv/app", 1500)
				m.link(t, "/home/app", "../srv/app", 0)
			}, keysOfApp, nil,
		},
	} {
		t.Run(says, func(t *testing.T) {
			m := newHostile(t)
			c.plant(t, m)
			p, contents := m.plan(t, plan.Config{}, configOf(t, "a", c.body))
			if c.want == nil {
				done, err := apply.Runner{Host: m.Host}.Run(t.Context(), p, contents)
				if err != nil || done.End != apply.New {
					t.Errorf("it ends in %s, %v, %v", done.End, done.Why, err)
				}
				m.untouched(t)
				return
			}
			var texts []string
			for _, r := range p.Refusals {
				if r.Check != disruption.CheckOwners {
					t.Errorf("%s: %s is on the list as %q", r.Field, r.Why, r.Check)
				}
				texts = append(texts, r.Field+": "+r.Why)
			}
			for _, part := range c.want {
				if len(texts) != 1 || !strings.Contains(texts[0], part) {
					t.Errorf("the refusals are %q, want one with %q", texts, part)
				}
			}
			if _, err := (apply.Runner{Host: m.Host}).Run(t.Context(), p, contents); !errors.Is(err, apply.ErrRefused) {
				t.Errorf("it was begun: %v", err)
			}
			m.untouched(t)
		})
	}
}

// TestALinkThatComesDuringAnUpdate is planted after the plan was made: the update is taken back, also where the link is
// in the way back.
func TestALinkThatComesDuringAnUpdate(t *testing.T) {
	m := newHostile(t)
	p, contents := m.plan(t, plan.Config{}, configOf(t, "a", fileOfApp))
	planted := false
	runner := apply.Runner{Host: m.Host, OnStep: func(s host.Step, undone bool) {
		if !undone && !planted && s.Target == "/home/app/conf" {
			planted = true
			must(t, os.Remove(m.at("/home/app/conf")))
			m.link(t, "/home/app/conf", "/etc/profile.d", 1500)
		}
	}}
	done, err := runner.Run(t.Context(), p, contents)
	var unsafe *host.UnsafePathError
	if err != nil || done.End != apply.Old || !errors.As(done.Why, &unsafe) || unsafe.Path != "/home/app/conf/app.sh" {
		t.Errorf("it ends in %s, %v, %v", done.End, done.Why, err)
	}
	if rec, err := m.Journal.Load(); err != nil || rec != nil {
		t.Errorf("the journal has %+v, %v", rec, err)
	}
	m.untouched(t)
}

// TestAnUnsafePathDoesNotHideOtherDrift has the user exchange a managed directory for a link.
func TestAnUnsafePathDoesNotHideOtherDrift(t *testing.T) {
	m := newHostile(t)
	a := configOf(t, "a", strings.Replace(fileOfApp, `"files":[`,
		`"files":[{"path":"/etc/other","contents":{"source":"data:,x"}},`, 1))
	p, contents := m.plan(t, plan.Config{}, a)
	if done, err := (apply.Runner{Host: m.Host}).Run(t.Context(), p, contents); err != nil || done.End != apply.New {
		t.Fatalf("it ends in %s, %v, %v", done.End, done.Why, err)
	}
	must(t, os.RemoveAll(m.at("/home/app/conf")))
	m.link(t, "/home/app/conf", "/etc/profile.d", 1500)
	must(t, os.WriteFile(m.at("/etc/other"), []byte("changed"), 0o644))
	accounts, err := apply.Accounts(t.Context(), m.Host)
	must(t, err)
	wanted := plan.DesiredOf(a.Config, accounts)
	seen, err := apply.Observe(t.Context(), m.Host, plan.ScopeOf(wanted))
	must(t, err)
	var texts []string
	for _, it := range drift.Items(seen, wanted, wanted) {
		texts = append(texts, it.String())
	}
	got := strings.Join(texts, "\n")
	const want = `content mismatch for file "/etc/other", mode 0644, owner 0:0
unsafe path "/home/app/conf/app.sh": the link /home/app/conf is controlled by uid 1500 and leads to /etc/profile.d, which belongs to uid 0; remove the link, or name the path that it stands for`
	if got != want {
		t.Errorf("it has drifted in\n%s\nwant\n%s", got, want)
	}
	if p, _ := m.plan(t, a, configOf(t, "b", "")); len(p.Refusals) != 1 ||
		p.Refusals[0].Check != disruption.CheckOwners {
		t.Errorf("the refusals are %+v", p.Refusals)
	}
	m.untouched(t)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
