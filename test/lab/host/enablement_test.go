package host_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// enablements are unit files, and the unit that is enabled and disabled, once by systemctl and once by the daemon. A
// key that ends with -> is a link.
var enablements = []struct {
	says  string
	files map[string]string
	unit  string
	// differs is why the daemon means to do otherwise; "" where it has to do the same.
	differs string
}{
	{says: "a target wants it", files: map[string]string{"a.service": "WantedBy=multi-user.target"}, unit: "a.service"},
	{says: "several of every kind", files: map[string]string{"a.service": "WantedBy=multi-user.target x.target\nRequiredBy=y.target dev-sda.device\nAlias=b.service c.service"}, unit: "a.service"},
	{says: "a vendor's unit", files: map[string]string{"/usr/lib/systemd/system/v.service": "WantedBy=multi-user.target\nAlias=w.service"}, unit: "v.service"},
	{says: "a vendor's unit by the vendor's other name for it", files: map[string]string{"/usr/lib/systemd/system/v.service": "WantedBy=multi-user.target\nAlias=w.service", "/usr/lib/systemd/system/w.service->": "v.service"}, unit: "w.service"},
	{says: "a vendor's other name for a unit that is masked", files: map[string]string{"/usr/lib/systemd/system/v.service": "WantedBy=multi-user.target", "/usr/lib/systemd/system/w.service->": "v.service", "v.service->": "/dev/null"}, unit: "w.service"},
	{says: "a vendor's other name for a unit that the administrator replaced", files: map[string]string{"/usr/lib/systemd/system/v.service": "WantedBy=multi-user.target", "/usr/lib/systemd/system/w.service->": "v.service", "v.service": "WantedBy=a.target"}, unit: "w.service"},
	{says: "a vendor's other name for a template that is masked", files: map[string]string{"/usr/lib/systemd/system/v@.service": "WantedBy=multi-user.target", "/usr/lib/systemd/system/w@.service->": "v@.service", "v@.service->": "/dev/null"}, unit: "w@i.service"},
	{says: "two names that lead to each other", files: map[string]string{"/usr/lib/systemd/system/v.service->": "w.service", "/usr/lib/systemd/system/w.service->": "v.service"}, unit: "w.service"},
	{says: "the administrator's file hides the vendor's", files: map[string]string{"/usr/lib/systemd/system/v.service": "WantedBy=v.target", "v.service": "WantedBy=a.target"}, unit: "v.service"},
	{says: "an instance", files: map[string]string{"t@.service": "WantedBy=multi-user.target %i.target"}, unit: "t@one.service"},
	{says: "an instance whose name is escaped", files: map[string]string{"t-u@.service": "WantedBy=%p-%j-%N.target\nRequiredBy=%n.target"}, unit: `t-u@a\x2db-c.service`},
	{says: "a template by its default instance", files: map[string]string{"t@.service": "WantedBy=%i.target\nDefaultInstance=one"}, unit: "t@.service"},
	{says: "a template without one", files: map[string]string{"t@.service": "WantedBy=a.target"}, unit: "t@.service"},
	{says: "a template that another template wants", files: map[string]string{"t@.service": "WantedBy=u@.service"}, unit: "t@.service"},
	{says: "an instance with an alias of its kind", files: map[string]string{"t@.service": "Alias=u@.service"}, unit: "t@one.service", differs: "systemctl leaves the alias of an instance behind when it disables the instance"},
	{says: "an instance cannot be known as a plain unit", files: map[string]string{"t@.service": "Alias=plain.service"}, unit: "t@one.service"},
	{says: "a service cannot be known as a socket", files: map[string]string{"a.service": "Alias=a.socket"}, unit: "a.service"},
	{says: "an alias that is its own name", files: map[string]string{"a.service": "Alias=a.service\nWantedBy=multi-user.target"}, unit: "a.service"},
	{says: "the old way to write WantedBy", files: map[string]string{"a.service": "Alias=multi-user.target.wants/a.service"}, unit: "a.service"},
	{says: "a name that climbs out", files: map[string]string{"a.service": "WantedBy=../../evil.target"}, unit: "a.service"},
	{says: "a name of no unit", files: map[string]string{"a.service": "WantedBy=nothing"}, unit: "a.service"},
	{says: "a mistake beside what is right", files: map[string]string{"a.service": "WantedBy=multi-user.target nothing"}, unit: "a.service", differs: "a section with a mistake makes no link at all"},
	{says: "a specifier that is none", files: map[string]string{"a.service": "WantedBy=%J.target"}, unit: "a.service"},
	{says: "no section", files: map[string]string{"a.service": ""}, unit: "a.service", differs: "systemctl says that there is nothing to do and ends well"},
	{says: "a mask", files: map[string]string{"a.service->": "/dev/null", "/usr/lib/systemd/system/a.service": "WantedBy=multi-user.target"}, unit: "a.service"},
	{says: "no file", unit: "none.service"},
	{says: "a file that is a link to somewhere else", files: map[string]string{"/opt/a.service": "WantedBy=multi-user.target", "a.service->": "/opt/a.service"}, unit: "a.service", differs: "systemctl removes the file when it disables the unit, which is the config's"},
	{says: "the administrator's link to a unit of another name", files: map[string]string{"a.service": "WantedBy=multi-user.target", "b.service->": "a.service"}, unit: "b.service"},
	{says: "a drop-in that says who wants it", files: map[string]string{"a.service": "", "a.service.d/10-install.conf": "WantedBy=multi-user.target"}, unit: "a.service"},
	{says: "drop-ins of an instance and its template", files: map[string]string{"t@.service": "WantedBy=a.target", "t@.service.d/10.conf": "WantedBy=b.target", "t@one.service.d/20.conf": "RequiredBy=c.target"}, unit: "t@one.service"},
	{says: "what is empty forgets what was said", files: map[string]string{"a.service": "WantedBy=a.target\nWantedBy=\nWantedBy=b.target"}, unit: "a.service"},
	{says: "lines, comments and blanks", files: map[string]string{"a.service": "WantedBy = a.target \\\n  b.target\n#WantedBy=c.target\n ; x\nRequiredBy= d.target"}, unit: "a.service"},
	{says: "a unit file in the way of an alias", files: map[string]string{"a.service": "Alias=b.service", "b.service": "WantedBy=x.target"}, unit: "a.service"},
	{says: "a mask in the way of an alias", files: map[string]string{"a.service": "Alias=b.service", "b.service->": "/dev/null"}, unit: "a.service"},
	{says: "a link that is there already, in another form", files: map[string]string{"a.service": "WantedBy=x.target", "x.target.wants/a.service->": "../a.service"}, unit: "a.service"},
	{says: "a link to where the unit was once", files: map[string]string{"a.service": "WantedBy=x.target", "x.target.wants/a.service->": "/usr/lib/systemd/system/a.service"}, unit: "a.service"},
	{says: "a unit named with Also", files: map[string]string{"a.service": "WantedBy=multi-user.target\nAlso=a.socket", "a.socket": "WantedBy=sockets.target"}, unit: "a.service", differs: "units of Also lines have steps of their own"},
	{says: "a default instance of what is no template", files: map[string]string{"a.service": "WantedBy=multi-user.target\nDefaultInstance=one"}, unit: "a.service"},
}

// put writes a case's files, with sections around them.
func put(t *testing.T, files map[string]string) {
	t.Helper()
	for at, text := range files {
		link := strings.HasSuffix(at, "->")
		if at = strings.TrimSuffix(at, "->"); !strings.HasPrefix(at, "/") {
			at = "/etc/systemd/system/" + at
		}
		if !link {
			if text != "" {
				text = "[Install]\n" + text + "\n"
			}
			write(t, at, "[Unit]\nDescription=x\n"+text)
			continue
		}
		made(t, at)
		if err := os.Symlink(text, at); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, at, text string) {
	t.Helper()
	made(t, at)
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// made makes the way to a path. What is not below /etc goes when its test ends.
func made(t *testing.T, at string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(at, "/usr/") {
		t.Cleanup(func() { os.Remove(at) })
	}
}

// outcome is what was done, and what systemctl says of it afterwards.
type outcome struct {
	// Well: enabling ended well.
	Well bool
	// Enabled and Disabled are what is-enabled says after each.
	Enabled, Disabled string
	// Links after each.
	LinksEnabled, LinksDisabled []string
}

// outcomeOf enables and disables on a machine as it was, with a case's files.
func outcomeOf(t *testing.T, files map[string]string, unit string,
	by func(host.Host) (enable, disable func() error),
) (o outcome) {
	t.Helper()
	t.Run("", func(t *testing.T) {
		h := open(t)
		put(t, files)
		enable, disable := by(h)
		err := enable()
		if err != nil {
			t.Log(err)
		}
		o.Well, o.Enabled, o.LinksEnabled = err == nil, isEnabled(unit), links(t)
		if err := disable(); err != nil {
			t.Log(err)
		}
		o.Disabled, o.LinksDisabled = isEnabled(unit), links(t)
	})
	return o
}

func isEnabled(unit string) string {
	out, _ := exec.Command("systemctl", "is-enabled", unit).Output()
	return strings.TrimSpace(string(out))
}

// links are all of the administrator's links to units; /lib is /usr/lib.
func links(t *testing.T) (found []string) {
	t.Helper()
	for line := range strings.Lines(sh(t, `find /etc/systemd/system -type l -printf '%P -> %l\n' | sort`)) {
		found = append(found, strings.TrimSpace(strings.Replace(line, "-> /lib/", "-> /usr/lib/", 1)))
	}
	return found
}

func TestInsideEnablementIsSystemctls(t *testing.T) {
	for _, c := range enablements {
		t.Run(c.says, func(t *testing.T) {
			its := outcomeOf(t, c.files, c.unit, func(host.Host) (_, _ func() error) {
				return systemctl("enable", "--no-reload", c.unit), systemctl("disable", "--no-reload", c.unit)
			})
			ours := outcomeOf(t, c.files, c.unit, func(h host.Host) (_, _ func() error) {
				return func() error {
					return h.Units.Enable(t.Context(), c.unit)
				}, func() error { return h.Units.Disable(t.Context(), c.unit) }
			})
			switch diff := cmp.Diff(its, ours); {
			case diff != "" && c.differs == "":
				t.Errorf("systemctl (-) and the daemon (+) differ:\n%s", diff)
			case diff == "" && c.differs != "":
				t.Errorf("they do the same, and it is said that %s", c.differs)
			}
		})
	}
}

// systemctl runs it, and tells what it says where it fails.
func systemctl(args ...string) func() error {
	return func() error {
		if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
}

// presets are files, and units that systemctl enables by them or not.
var presets = []struct {
	says  string
	files map[string]string
	units []string
}{
	{"the first line that matches decides", map[string]string{"/etc/systemd/system-preset/10-a.preset": "enable a.service\ndisable a.*\nenable *\n"}, []string{"a.service", "a.socket", "b.service"}},
	{"files count in the order of their names, wherever they are", map[string]string{
		"/etc/systemd/system-preset/50-etc.preset":     "disable a.service\n",
		"/usr/lib/systemd/system-preset/40-usr.preset": "enable a.service\n",
	}, []string{"a.service", "b.service"}},
	{"the administrator's file hides the vendor's of its name", map[string]string{
		"/etc/systemd/system-preset/40-x.preset":     "# nothing\n",
		"/usr/lib/systemd/system-preset/40-x.preset": "enable a.service\n",
	}, []string{"a.service"}},
	{"instances are listed behind their template", map[string]string{"/etc/systemd/system-preset/10-t.preset": "enable t@.service one two\n"}, []string{"t@one.service", "t@two.service", "t@three.service"}},
	{"an instance has a line of its own", map[string]string{"/etc/systemd/system-preset/10-t.preset": "disable t@one.service\nenable t@*.service\n"}, []string{"t@one.service", "t@two.service"}},
	{"sets of letters", map[string]string{"/etc/systemd/system-preset/10-s.preset": "enable [ac].s?rvice\n; enable b.service\nnonsense b.service\n"}, []string{"a.service", "b.service", "c.service"}},
}

func TestInsidePresetsAreSystemctls(t *testing.T) {
	for _, c := range presets {
		t.Run(c.says, func(t *testing.T) {
			h := open(t)
			files := map[string]string{
				"a.service": "WantedBy=x.target", "a.socket": "WantedBy=x.target",
				"b.service": "WantedBy=x.target", "c.service": "WantedBy=x.target", "t@.service": "WantedBy=x.target",
			}
			put(t, files)
			for at, text := range c.files {
				write(t, at, text)
			}
			for _, unit := range c.units {
				if err := systemctl("preset", "--no-reload", unit)(); err != nil {
					t.Fatal(err)
				}
				is, err := h.Units.Status(t.Context(), unit)
				if its := isEnabled(unit) == "enabled"; err != nil || is.Preset != its {
					t.Errorf("%s: the daemon says %t, %v, and systemctl %t", unit, is.Preset, err, its)
				}
				if is.Enabled != is.Preset {
					t.Errorf("%s: it is enabled: %t", unit, is.Enabled)
				}
			}
		})
	}
}
