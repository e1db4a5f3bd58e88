package hosttest

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Conformance tests a host. The parameter open is a function that returns a machine like that of NewMachine: /etc,
// /etc/systemd/system and /usr/lib/systemd/system exist, and presets disable every unit except preset.service.
func Conformance(t *testing.T, open func(*testing.T) host.Host) {
	for _, c := range conformance {
		t.Run(c.says, func(t *testing.T) { c.check(probe{t, open(t)}) })
	}
	AccountConformance(t, open)
}

// conformance has the tests: the required behaviour of a host, and the function that checks it.
var conformance = []struct {
	says  string
	check func(probe)
}{
	{"nothing at a path is the zero entry, even below a file", func(p probe) {
		p.is("/etc/none", host.Entry{})
		p.is("/etc/none/deeper", host.Entry{})
		p.write("/etc/file", 0o644, "x")
		p.is("/etc/file/below", host.Entry{})
	}},
	{"the host writes a file with its mode, owner and contents, and reads the same file", func(p probe) {
		p.write("/etc/a", 0o640, "hello")
		p.is("/etc/a", host.Entry{Kind: host.File, Mode: 0o640, Digest: host.DigestOf([]byte("hello"))})
		if got, err := p.h.Files.Read("/etc/a"); err != nil || string(got) != "hello" {
			p.t.Errorf("read %q, %v", got, err)
		}
	}},
	{"an owner is set", func(p probe) {
		if p.h.Unprivileged {
			p.t.Skip("owners cannot be set here")
		}
		want := host.Entry{
			Kind: host.File, Mode: 0o600, Owner: host.Owner{UID: 1000, GID: 1001},
			Digest: host.DigestOf(nil),
		}
		p.ok(p.h.Files.Write("/etc/owned", want, nil))
		p.is("/etc/owned", want)
	}},
	{"writing again changes mode and contents", func(p probe) {
		p.write("/etc/a", 0o600, "one")
		p.write("/etc/a", 0o644, "two")
		p.is("/etc/a", host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("two"))})
	}},
	{"a file replaces a link, not what the link points at", func(p probe) {
		p.write("/etc/target", 0o644, "kept")
		p.ok(p.h.Files.Link("/etc/l", host.Entry{Target: "target"}))
		p.write("/etc/l", 0o644, "new")
		p.is("/etc/l", host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("new"))})
		p.is("/etc/target", host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("kept"))})
	}},
	{"a link replaces a file and is not followed by Stat", func(p probe) {
		p.write("/etc/a", 0o644, "x")
		p.ok(p.h.Files.Link("/etc/a", host.Entry{Target: "/dev/null"}))
		p.is("/etc/a", host.Entry{Kind: host.Link, Target: "/dev/null"})
	}},
	{"a file needs its parent", func(p probe) {
		err := p.h.Files.Write("/etc/none/a", host.Entry{Mode: 0o644}, nil)
		p.fails(err, fs.ErrNotExist)
	}},
	{"an absolute link in the way is resolved within the machine", func(p probe) {
		p.ok(p.h.Files.Mkdir("/opt", host.Entry{Mode: 0o755}))
		p.ok(p.h.Files.Mkdir("/opt/real", host.Entry{Mode: 0o755}))
		p.ok(p.h.Files.Link("/etc/way", host.Entry{Target: "/opt/real"}))
		p.write("/etc/way/file", 0o644, "x")
		p.is("/opt/real/file", host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("x"))})
	}},
	{"a link that climbs out of the root ends at the root", func(p probe) {
		p.ok(p.h.Files.Link("/etc/up", host.Entry{Target: "../../../../../../etc"}))
		p.write("/etc/up/inside", 0o644, "x")
		p.is("/etc/inside", host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("x"))})
	}},
	{"links in a circle are an error, not a hang", func(p probe) {
		p.ok(p.h.Files.Link("/etc/l1", host.Entry{Target: "l2"}))
		p.ok(p.h.Files.Link("/etc/l2", host.Entry{Target: "l1"}))
		p.fails(p.h.Files.Write("/etc/l1/a", host.Entry{Mode: 0o644}, nil), nil)
	}},
	{"a path that is not absolute and clean is refused", func(p probe) {
		for _, bad := range []string{"etc/a", "/etc/../a", "/etc/a/", ""} {
			p.fails(p.h.Files.Write(bad, host.Entry{Mode: 0o644}, nil), nil)
		}
	}},
	{"the host creates a directory, and the second call changes its mode", func(p probe) {
		p.ok(p.h.Files.Mkdir("/etc/d", host.Entry{Mode: 0o755}))
		p.ok(p.h.Files.Mkdir("/etc/d", host.Entry{Mode: 0o700}))
		p.is("/etc/d", host.Entry{Kind: host.Dir, Mode: 0o700})
	}},
	{"a directory does not replace a file, nor a file a directory", func(p probe) {
		p.write("/etc/a", 0o644, "x")
		p.fails(p.h.Files.Mkdir("/etc/a", host.Entry{Mode: 0o755}), nil)
		p.ok(p.h.Files.Mkdir("/etc/d", host.Entry{Mode: 0o755}))
		p.fails(p.h.Files.Write("/etc/d", host.Entry{Mode: 0o644}, nil), nil)
	}},
	{"removing takes files, links and empty directories; nothing is no error", func(p probe) {
		p.write("/etc/a", 0o644, "x")
		p.ok(p.h.Files.Link("/etc/l", host.Entry{Target: "a"}))
		p.ok(p.h.Files.Mkdir("/etc/d", host.Entry{Mode: 0o755}))
		for _, at := range []string{"/etc/a", "/etc/l", "/etc/d", "/etc/a", "/etc/none/deeper"} {
			p.ok(p.h.Files.Remove(at))
			p.is(at, host.Entry{})
		}
	}},
	{"a full directory is left alone", func(p probe) {
		p.ok(p.h.Files.Mkdir("/etc/d", host.Entry{Mode: 0o755}))
		p.write("/etc/d/a", 0o644, "x")
		p.fails(p.h.Files.Remove("/etc/d"), host.ErrNotEmpty)
	}},
	{"reading nothing, or a directory, is an error", func(p probe) {
		_, err := p.h.Files.Read("/etc/none")
		p.fails(err, fs.ErrNotExist)
		_, err = p.h.Files.Read("/etc")
		p.fails(err, nil)
	}},
	{"a unit is enabled by its [Install] section, twice is once, and disabled", func(p probe) {
		p.write("/etc/systemd/system/a.service", 0o644, "[Service]\nExecStart=/bin/a\n[Install]\n"+
			"WantedBy=multi-user.target\n")
		p.unit("a.service", host.Unit{Install: "WantedBy=multi-user.target"})
		p.ok(p.h.Units.Enable(p.ctx(), "a.service"))
		p.ok(p.h.Units.Enable(p.ctx(), "a.service"))
		p.unit("a.service", host.Unit{Install: "WantedBy=multi-user.target", Enabled: true})
		p.ok(p.h.Units.Disable(p.ctx(), "a.service"))
		p.ok(p.h.Units.Disable(p.ctx(), "a.service"))
		p.unit("a.service", host.Unit{Install: "WantedBy=multi-user.target"})
	}},
	{"what a unit's drop-ins say in [Install] counts, with and without the administrator's files", func(p probe) {
		at := "/etc/systemd/system/vendor.service.d"
		p.ok(p.h.Files.Mkdir(at, host.Entry{Mode: 0o755}))
		p.write(at+"/10-more.conf", 0o644, "[Install]\nWantedBy=x.target\n")
		p.installs("vendor.service", "WantedBy=multi-user.target\nWantedBy=x.target", "WantedBy=multi-user.target")
		p.write(at+"/20-anew.conf", 0o644, "[Install]\nWantedBy=\nRequiredBy=y.target\n")
		p.installs("vendor.service", "RequiredBy=y.target", "WantedBy=multi-user.target")
		p.ok(p.h.Units.Enable(p.ctx(), "vendor.service"))
		p.ok(p.h.Units.Disable(p.ctx(), "vendor.service"))
		for _, name := range []string{"/10-more.conf", "/20-anew.conf", ""} {
			p.ok(p.h.Files.Remove(at + name))
		}
		p.unit("vendor.service", host.Unit{Install: "WantedBy=multi-user.target", Vendor: "WantedBy=multi-user.target"})
	}},
	{"a unit without [Install] is enabled by that of its drop-in", func(p probe) {
		p.write("/etc/systemd/system/static.service", 0o644, "[Service]\nExecStart=/bin/a\n")
		p.ok(p.h.Files.Mkdir("/etc/systemd/system/static.service.d", host.Entry{Mode: 0o755}))
		p.write("/etc/systemd/system/static.service.d/10.conf", 0o644, "[Install]\nWantedBy=multi-user.target\n")
		p.installs("static.service", "WantedBy=multi-user.target", "")
		p.ok(p.h.Units.Enable(p.ctx(), "static.service"))
		if u, err := p.h.Units.Status(p.ctx(), "static.service"); err != nil || !u.Enabled {
			p.t.Errorf("it is %+v, %v", u, err)
		}
	}},
	{"nothing is behind links that lead to each other", func(p probe) {
		p.ok(p.h.Files.Link("/etc/one", host.Entry{Target: "two"}))
		p.ok(p.h.Files.Link("/etc/two", host.Entry{Target: "one"}))
		if is, err := p.h.Files.Stat("/etc/one/x"); err != nil || is != (host.Entry{}) {
			p.t.Errorf("it is %s, %v", is, err)
		}
		if text, err := p.h.Files.Read("/etc/one/x"); !errors.Is(err, fs.ErrNotExist) {
			p.t.Errorf("it has %q, %v", text, err)
		}
		if is, err := p.h.Files.Stat("/etc/one"); err != nil || is.Target != "two" {
			p.t.Errorf("the link is %s, %v", is, err)
		}
	}},
	{"a unit is disabled after its file is gone", func(p probe) {
		p.write("/etc/systemd/system/a.service", 0o644, "[Install]\nWantedBy=multi-user.target\n")
		p.ok(p.h.Units.Enable(p.ctx(), "a.service"))
		p.ok(p.h.Files.Remove("/etc/systemd/system/a.service"))
		missing := host.Obstacle{Why: host.UnitMissing}
		p.unit("a.service", host.Unit{Enabled: true, Obstacle: missing})
		p.ok(p.h.Units.Disable(p.ctx(), "a.service"))
		p.unit("a.service", host.Unit{Obstacle: missing})
	}},
	{"an instance of a template is enabled by itself", func(p probe) {
		p.write("/etc/systemd/system/echo@.service", 0o644, "[Install]\nWantedBy=multi-user.target\n")
		p.ok(p.h.Units.Enable(p.ctx(), "echo@one.service"))
		p.unit("echo@one.service", host.Unit{Install: "WantedBy=multi-user.target", Enabled: true})
		p.unit("echo@two.service", host.Unit{Install: "WantedBy=multi-user.target"})
	}},
	{"a unit that another names with Also is left to steps of its own", func(p probe) {
		p.write("/etc/systemd/system/a.service", 0o644, "[Install]\nWantedBy=multi-user.target\nAlso=a.socket\n")
		p.write("/etc/systemd/system/a.socket", 0o644, "[Install]\nWantedBy=sockets.target\n")
		p.ok(p.h.Units.Enable(p.ctx(), "a.service"))
		p.unit("a.socket", host.Unit{Install: "WantedBy=sockets.target"})
	}},
	{"the host enables a vendor's unit, and reports presets", func(p probe) {
		vendor := host.Unit{Install: "WantedBy=multi-user.target", Vendor: "WantedBy=multi-user.target"}
		p.unit("vendor.service", vendor)
		p.ok(p.h.Units.Enable(p.ctx(), "vendor.service"))
		vendor.Enabled = true
		p.unit("vendor.service", vendor)
		p.write("/etc/systemd/system/vendor.service", 0o644, "[Install]\nAlias=other.service\n")
		vendor.Install = "Alias=other.service"
		p.unit("vendor.service", vendor)
		p.unit("preset.service", host.Unit{Preset: true, Obstacle: host.Obstacle{Why: host.UnitMissing}})
	}},
	{"a host says what keeps a unit from being enabled, and where, and does not enable it", func(p probe) {
		const etc, usr = "/etc/systemd/system/", "/usr/lib/systemd/system/"
		const wanted = "[Install]\nWantedBy=multi-user.target\n"
		for at, text := range map[string]string{
			etc + "static.service": "[Service]\nExecStart=/bin/a\n", etc + "template@.service": wanted,
			etc + "cleared.service": wanted, etc + "other.service": wanted, etc + "empty.service": "",
		} {
			p.write(at, 0o644, text)
		}
		p.ok(p.h.Files.Mkdir(etc+"cleared.service.d", host.Entry{Mode: 0o755}))
		p.write(etc+"cleared.service.d/10-more.conf", 0o644, "[Install]\nWantedBy=x.target\n")
		p.write(etc+"cleared.service.d/20-off.conf", 0o644, "[Install]\nWantedBy=\n")
		for at, to := range map[string]string{
			etc + "vendor.service": "/dev/null", etc + "relative.service": "../../../dev/null",
			usr + "image.service": "/dev/null", etc + "alias.service": "other.service",
			etc + "masked@.service": "/dev/null",
		} {
			p.ok(p.h.Files.Link(at, host.Entry{Target: to}))
		}
		for name, want := range map[string]host.Obstacle{
			"none.service":       {Why: host.UnitMissing},
			"static.service":     {Why: host.UnitStatic, At: etc + "static.service"},
			"template@.service":  {Why: host.UnitTemplate, At: etc + "template@.service"},
			"template@a.service": {},
			"cleared.service":    {Why: host.UnitCleared, At: etc + "cleared.service.d/20-off.conf"},
			"vendor.service":     {Why: host.UnitMasked, At: etc + "vendor.service"},
			"relative.service":   {Why: host.UnitMasked, At: etc + "relative.service"},
			"empty.service":      {Why: host.UnitMasked, At: etc + "empty.service"},
			"masked@a.service":   {Why: host.UnitMasked, At: etc + "masked@.service"},
			"image.service":      {Why: host.UnitMasked, At: usr + "image.service"},
			"alias.service":      {Why: host.UnitAlias, At: etc + "other.service"},
		} {
			is, err := p.h.Units.Status(p.ctx(), name)
			if err != nil || is.Obstacle != want {
				p.t.Errorf("%s is %+v, %v; want the obstacle %+v", name, is, err, want)
			}
			if err := p.h.Units.Enable(p.ctx(), name); (err == nil) != (want.Why == "") {
				p.t.Errorf("enabling %s ends with %v", name, err)
			}
		}
	}},
	{"no file, no [Install] and a mask cannot be enabled", func(p probe) {
		p.fails(p.h.Units.Enable(p.ctx(), "none.service"), fs.ErrNotExist)
		p.write("/etc/systemd/system/static.service", 0o644, "[Service]\nExecStart=/bin/a\n")
		p.fails(p.h.Units.Enable(p.ctx(), "static.service"), nil)
		p.ok(p.h.Files.Link("/etc/systemd/system/vendor.service", host.Entry{Target: "/dev/null"}))
		p.fails(p.h.Units.Enable(p.ctx(), "vendor.service"), nil)
	}},
	{"what is staged runs after the reboot, and the boot's id changes", func(p probe) {
		stage := host.Step{Verb: host.SetKargs, After: host.Value{Word: "quiet nosmt"}}
		for range 2 {
			p.ok(p.h.OS.Stage(p.ctx(), stage))
		}
		before, err := p.h.OS.Status(p.ctx())
		p.ok(err)
		if want := before.Booted.Kargs + " quiet nosmt"; before.Next.Kargs != want {
			p.t.Errorf("next boot has %q, want %q", before.Next.Kargs, want)
		}
		id, err := p.h.Power.BootID()
		p.ok(err)
		if down, err := p.h.Power.GoingDown(p.ctx()); down || err != nil {
			p.t.Errorf("before the reboot, it goes down: %t, %v", down, err)
		}
		p.ok(p.h.Power.Reboot(p.ctx(), "test"))
		after, err := p.h.OS.Status(p.ctx())
		p.ok(err)
		if again, _ := p.h.Power.BootID(); again == id || after.Booted != before.Next {
			p.t.Errorf("after the reboot %q: %+v, want %+v", again, after.Booted, before.Next)
		}
	}},
	{"the journal is empty at first, keeps a record whole, and forgets it", func(p probe) {
		p.journal(nil)
		rec := host.Record{
			From: "a", To: "b", Phase: host.Applying, Acted: true, BootID: "x", Why: "y",
			Steps: []host.Step{{
				Verb: host.Write, Target: "/etc/a",
				Before: host.Value{Entry: host.Entry{Kind: host.Link, Target: "b"}},
				After: host.Value{Entry: host.Entry{
					Kind: host.File, Mode: 0o644, Owner: host.Owner{UID: 1, GID: 2},
					Digest: "d",
				}, Word: "w"},
			}},
		}
		p.ok(p.h.Journal.Save(rec))
		p.journal(&rec)
		p.ok(p.h.Journal.Clear())
		p.ok(p.h.Journal.Clear())
		p.journal(nil)
	}},
	{"the store keeps contents by digest until it keeps others or is swept", func(p probe) {
		one, two := host.DigestOf([]byte("one")), host.DigestOf([]byte("two"))
		p.write("/etc/a", 0o644, "one")
		p.ok(p.h.Store.Keep([]host.Old{{Path: "/etc/a", Digest: one}, {Digest: two, Contents: []byte("two")}}))
		p.kept(one, "one")
		p.kept(two, "two")
		p.ok(p.h.Store.Keep([]host.Old{{Digest: two, Contents: []byte("two")}}))
		p.kept(two, "two")
		_, err := p.h.Store.Get(one)
		p.fails(err, fs.ErrNotExist)
		p.fails(p.h.Store.Keep([]host.Old{{Path: "/etc/a", Digest: two}}), nil)
		p.fails(p.h.Store.Keep([]host.Old{{Path: "/etc/none", Digest: two}}), fs.ErrNotExist)
		p.ok(p.h.Store.Sweep())
		p.ok(p.h.Store.Sweep())
		_, err = p.h.Store.Get(two)
		p.fails(err, fs.ErrNotExist)
		p.ok(p.h.Store.Keep(nil))
	}},
	{"what was changed is flushed, also what is gone since, and nothing is", func(p probe) {
		p.ok(p.h.Disk.Flush(p.ctx()))
		p.ok(p.h.Files.Mkdir("/etc/d", host.Entry{Mode: 0o700}))
		p.write("/etc/d/a", 0o600, "x")
		p.ok(p.h.Files.Link("/etc/l", host.Entry{Target: "d"}))
		p.write("/etc/l/b", 0o600, "x")
		p.ok(p.h.Disk.Flush(p.ctx()))
		for _, at := range []string{"/etc/d/a", "/etc/d/b", "/etc/d"} {
			p.ok(p.h.Files.Remove(at))
		}
		p.ok(p.h.Disk.Flush(p.ctx()))
		p.is("/etc/d", host.Entry{})
	}},
	{"what a process that died left beside its targets goes", func(p probe) {
		left := "/etc/.a" + host.NewSuffix
		p.write("/etc/a", 0o644, "x")
		p.write(left, 0o600, "half")
		p.ok(p.h.Disk.Resume(p.ctx(), []host.Step{
			{Verb: host.Write, Target: "/etc/a"},
			{Verb: host.Write, Target: "/etc/none/a"},
		}))
		p.is(left, host.Entry{})
		p.is("/etc/a", host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("x"))})
		p.ok(p.h.Disk.Flush(p.ctx()))
	}},
	{"a mask that the image has in /etc is told as that", func(p probe) {
		const at = "/etc/systemd/system/vendor.service"
		if was, err := p.h.Files.Stat(host.ImageMark); err != nil || was.Kind == host.Absent {
			p.ok(p.h.Files.Mkdir(host.ImageMark, host.Entry{Mode: 0o755}))
			defer func() { p.ok(p.h.Files.Remove(host.ImageMark)) }()
		}
		act := []host.Step{{Verb: host.Restart, Target: "vendor.service"}}
		told := func(shipped bool) {
			p.t.Helper()
			u, err := p.h.Units.Status(p.ctx(), "vendor.service")
			want := host.Obstacle{Why: host.UnitMasked, At: at, Shipped: shipped}
			if err != nil || u.Obstacle != want {
				p.t.Errorf("it is %+v, %v; want %+v", u.Obstacle, err, want)
			}
			if found, _ := p.h.Units.Blockers(act, nil); len(found) != 1 || found[0].Shipped != shipped {
				p.t.Errorf("a restart has the blockers %+v; want one that is shipped: %t", found, shipped)
			}
		}
		p.ok(p.h.Files.Link(at, host.Entry{Target: "/dev/null"}))
		told(false)
		var made []string
		for _, dir := range []string{"/usr/etc", "/usr/etc/systemd", "/usr/etc/systemd/system"} {
			if is, err := p.h.Files.Stat(dir); err == nil && is.Kind == host.Absent {
				p.ok(p.h.Files.Mkdir(dir, host.Entry{Mode: 0o755}))
				made = append([]string{dir}, made...)
			}
		}
		p.ok(p.h.Files.Link("/usr"+at, host.Entry{Target: "/dev/null"}))
		told(true)
		for _, left := range append([]string{at, "/usr" + at}, made...) {
			p.ok(p.h.Files.Remove(left))
		}
	}},
	{"what is where the link of a unit has to be is told before, and stops the unit", func(p probe) {
		const wanted, at = "WantedBy=x.target", "/etc/systemd/system/x.target.wants"
		p.write("/etc/systemd/system/a.service", 0o644, "[Install]\n"+wanted+"\n")
		enable := []host.Step{{Verb: host.Enable, Target: "a.service"}}
		asked := func(steps []host.Step, want host.Blocker) {
			p.t.Helper()
			found, _ := p.h.Units.Blockers(steps, map[string]string{"a.service": wanted, "new.service": wanted})
			if want.Kind == "" && len(found) > 0 || want.Kind != "" && (len(found) != 1 || found[0] != want) {
				p.t.Errorf("%v: got %+v, want %+v", steps, found, want)
			}
		}
		asked(enable, host.Blocker{})
		asked([]host.Step{{Verb: host.Enable, Target: "new.service"}}, host.Blocker{})
		p.is(at, host.Entry{})
		file := host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("x"))}
		p.write(at, 0o644, "x")
		taken := host.Blocker{Kind: host.LinkTaken, Path: at, At: at, Unit: "a.service", Text: "a file"}
		asked(enable, taken)
		asked(append([]host.Step{{Verb: host.Remove, Target: at, Before: host.Value{Entry: file}}}, enable...),
			host.Blocker{})
		p.fails(p.h.Units.Enable(p.ctx(), "a.service"), nil)
		p.ok(p.h.Files.Remove(at))
		p.ok(p.h.Files.Mkdir(at, host.Entry{Mode: 0o755}))
		asked(enable, host.Blocker{})
		p.write(at+"/a.service", 0o644, "x")
		taken.Path, taken.At = at+"/a.service", at+"/a.service"
		asked(enable, taken)
		p.fails(p.h.Units.Enable(p.ctx(), "a.service"), nil)
		p.ok(p.h.Files.Remove(at + "/a.service"))
		p.ok(p.h.Files.Mkdir(at+"/a.service", host.Entry{Mode: 0o755}))
		p.write(at+"/a.service/keep", 0o644, "x")
		taken.Text = "a directory"
		asked(enable, taken)
		p.fails(p.h.Units.Enable(p.ctx(), "a.service"), nil)
		for _, left := range []string{"/a.service/keep", "/a.service", ""} {
			p.ok(p.h.Files.Remove(at + left))
		}
		p.ok(p.h.Units.Enable(p.ctx(), "a.service"))
		asked(enable, host.Blocker{})
	}},
	{"a mask of a unit that is reloaded or restarted is told before", func(p probe) {
		const at = "/etc/systemd/system/vendor.service"
		mask := host.Entry{Kind: host.Link, Target: "/dev/null"}
		unmask := host.Step{Verb: host.Remove, Target: at, Before: host.Value{Entry: mask}}
		for _, verb := range []host.Verb{host.Reload, host.Restart} {
			act := host.Step{Verb: verb, Target: "vendor.service"}
			masked := host.Blocker{Kind: host.MaskedUnit, Path: at, At: at, Unit: act.Target, Text: string(verb)}
			asked := func(want host.Blocker, steps ...host.Step) {
				p.t.Helper()
				found, _ := p.h.Units.Blockers(steps, nil)
				if want.Kind == "" && len(found) > 0 || want.Kind != "" && (len(found) != 1 || found[0] != want) {
					p.t.Errorf("%v: got %+v, want %+v", steps, found, want)
				}
			}
			asked(host.Blocker{}, act)
			asked(host.Blocker{}, host.Step{Verb: verb, Target: "none.service"})
			p.ok(p.h.Files.Link(at, mask))
			asked(masked, act)
			asked(host.Blocker{}, unmask, act)
			p.ok(p.h.Files.Remove(at))
			masked.At = ""
			asked(masked, host.Step{Verb: host.MakeLink, Target: at, After: host.Value{Entry: mask}}, act)
		}
	}},
	{"what stands in the way of a step is told before, and asking changes nothing", func(p probe) {
		p.ok(p.h.Files.Mkdir("/etc/d", host.Entry{Mode: 0o755}))
		p.write("/etc/d/a", 0o644, "x")
		dir := host.Value{Entry: host.Entry{Kind: host.Dir, Mode: 0o755}}
		file := host.Value{Entry: host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("y"))}}
		link := host.Value{Entry: host.Entry{Kind: host.Link, Target: "e"}}
		a := host.Step{Verb: host.Remove, Target: "/etc/d/a", Before: file}
		for _, c := range []struct {
			steps []host.Step
			want  host.BlockerKind
		}{
			{[]host.Step{{Verb: host.Write, Target: "/etc/new", After: file}}, ""},
			{[]host.Step{{Verb: host.Write, Target: "/etc/new/a", After: file}}, ""},
			{[]host.Step{{Verb: host.Write, Target: "/etc/d", Before: dir, After: file}}, host.UsedDir},
			{[]host.Step{{Verb: host.MakeLink, Target: "/etc/d", Before: dir, After: link}}, host.UsedDir},
			{[]host.Step{a, {Verb: host.Write, Target: "/etc/d", Before: dir, After: file}}, ""},
			{[]host.Step{{Verb: host.Remove, Target: "/etc/d", Before: dir}}, ""}, // It stays, and the update goes on.
			{[]host.Step{{Verb: host.MakeDir, Target: "/etc/d", Before: dir, After: dir}}, ""},
			{[]host.Step{{Verb: host.Write, Target: "/etc/" + strings.Repeat("n", 256), After: file}}, host.Denied},
		} {
			found := p.h.Disk.Blockers(c.steps, func(host.Digest) int64 { return 1 })
			var kind host.BlockerKind
			if len(found) > 0 {
				kind = found[0].Kind
			}
			if kind != c.want {
				p.t.Errorf("%v: got %v, want %q", c.steps, found, c.want)
			}
		}
		p.is("/etc/new", host.Entry{})
		p.is("/etc/d/a", host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte("x"))})
	}},
}
