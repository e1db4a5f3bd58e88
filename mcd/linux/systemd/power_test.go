package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	godbus "github.com/godbus/dbus/v5"
)

// logind answers as systemd-logind does.
type logind struct {
	held []inhibitor
	// late takes effect after the first question for who blocks.
	late []inhibitor
	// old has no RebootWithFlags.
	old bool
	// underway: it goes down already. goesDown: it does after a request.
	underway, goesDown bool

	mu    sync.Mutex
	calls []string
}

const logindIface = "org.freedesktop.login1.Manager"

func (l *logind) serve(c *godbus.Conn) {
	c.Export(hello{}, "/org/freedesktop/DBus", "org.freedesktop.DBus")
	c.Export(property{l}, "/org/freedesktop/login1", "org.freedesktop.DBus.Properties")
	methods := map[string]any{
		"ListInhibitors": l.listInhibitors, "SetWallMessage": l.setWallMessage,
		"Reboot": l.reboot,
	}
	if !l.old {
		methods["RebootWithFlags"] = l.rebootWithFlags
	}
	c.ExportMethodTable(methods, "/org/freedesktop/login1", logindIface)
}

// hello is the bus itself.
type hello struct{}

// Hello is D-Bus's.
func (hello) Hello() (string, *godbus.Error) { return ":1.1", nil }

// property answers for the only one that is asked for.
type property struct{ l *logind }

// Get is D-Bus's.
func (p property) Get(string, string) (godbus.Variant, *godbus.Error) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	return godbus.MakeVariant(p.l.underway), nil
}

func (l *logind) say(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
}

func (l *logind) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.calls, "\n")
}

func (l *logind) listInhibitors() ([]inhibitor, *godbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.held
	if l.late != nil {
		l.held, l.late = l.late, nil
	}
	return held, nil
}

func (l *logind) setWallMessage(text string, on bool) *godbus.Error {
	if on {
		l.say("wall " + text)
	}
	return nil
}

func (l *logind) rebootWithFlags(flags uint64) *godbus.Error {
	if flags != 1 {
		return godbus.NewError("org.freedesktop.DBus.Error.InvalidArgs", nil)
	}
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if len(held) > 0 && held[0].Mode == "block" {
		return godbus.NewError("org.freedesktop.DBus.Error.AccessDenied",
			[]any{"Access denied to root due to active block inhibitor"})
	}
	return l.reboot(false)
}

func (l *logind) reboot(bool) *godbus.Error {
	l.say("reboot")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.underway {
		return godbus.NewError("org.freedesktop.login1.OperationInProgress", []any{
			"There's already a shutdown or sleep operation in progress",
		})
	}
	l.underway = l.goesDown
	return nil
}

// idleUnit is a unit that is not active and has no job.
var idleUnit = map[string]godbus.Variant{
	"ActiveState": godbus.MakeVariant("inactive"),
	"Job":         godbus.MakeVariant(jobOf{Path: "/"}),
}

// jobOf is the property Job of a unit.
type jobOf struct {
	ID   uint32
	Path godbus.ObjectPath
}

// powerOn is the power of a machine with its logind at an address, whose systemd is not shutting down.
func powerOn(t *testing.T, address string, patient timeouts) Power {
	t.Helper()
	units := unitsOn(t, newPeer(t, (&systemd{properties: idleUnit}).serve).address, patient)
	return Power{address: address, timeouts: patient, staged: "/nonexistent/staged-deployment", units: units}
}

func TestARebootIsAskedOfLogindWhichDecides(t *testing.T) {
	backup := inhibitor{What: "shutdown:idle", Who: "backup", Why: "nightly copy", Mode: "block", UID: 33, PID: 4711}
	for says, c := range map[string]struct {
		logind *logind
		calls  string
		err    string
	}{
		"nobody minds: those who are logged in are told, then it goes down": {
			logind: &logind{}, calls: "wall config b of commit c\nreboot",
		},
		"a delay, and a block of something else, are logind's to wait for": {
			logind: &logind{held: []inhibitor{
				{What: "shutdown", Who: "agent", Why: "flush", Mode: "delay"},
				{What: "sleep", Who: "x", Mode: "block"},
			}},
			calls: "wall config b of commit c\nreboot",
		},
		"a block is not forced, and who blocks is told": {
			logind: &logind{held: []inhibitor{backup}},
			err:    `it is blocked by backup ("nightly copy", uid 33, pid 4711)`,
		},
		"a block that came in between is told as well": {
			logind: &logind{late: []inhibitor{backup}}, calls: "wall config b of commit c",
			err: `it is blocked by backup ("nightly copy", uid 33, pid 4711)`,
		},
		"an older logind has one method only": {
			logind: &logind{old: true}, calls: "wall config b of commit c\nreboot",
		},
		"a machine that goes down already has accepted": {
			logind: &logind{underway: true}, calls: "wall config b of commit c\nreboot",
		},
	} {
		t.Run(says, func(t *testing.T) {
			err := powerOn(t, newPeer(t, c.logind.serve).address, long).Reboot(t.Context(), "config b of commit c")
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("it says %v, want %q", err, c.err)
			}
			c.logind.mu.Lock()
			defer c.logind.mu.Unlock()
			if calls := strings.Join(c.logind.calls, "\n"); calls != c.calls {
				t.Errorf("logind was told\n%s\nwant\n%s", calls, c.calls)
			}
		})
	}
}

func TestAStagedDeploymentIsWrittenAtTheShutdown(t *testing.T) {
	for says, c := range map[string]struct {
		staged  bool
		result  string
		systemd string
		logind  string
		err     string
	}{
		"nothing is staged: systemd is asked for nothing":       {logind: "wall why\nreboot"},
		"what writes it runs before the reboot is asked for":    {staged: true, result: "done", systemd: "StartUnit ostree-finalize-staged.service replace", logind: "wall why\nreboot"},
		"it does not start: there is no reboot into the old OS": {staged: true, result: "failed", systemd: "StartUnit ostree-finalize-staged.service replace", err: "having the staged deployment written at the shutdown: the job ended as failed"},
	} {
		t.Run(says, func(t *testing.T) {
			l, s := &logind{}, &systemd{result: c.result}
			p := powerOn(t, newPeer(t, l.serve).address, long)
			p.units = &Units{bus: &bus{address: newPeer(t, s.serve).address, timeouts: long}}
			t.Cleanup(p.units.bus.close)
			if c.staged {
				p.staged = t.TempDir()
			}
			err := p.Reboot(t.Context(), "why")
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("it says %v, want %q", err, c.err)
			}
			if got := l.said(); got != c.logind {
				t.Errorf("logind was told %q, want %q", got, c.logind)
			}
			if got := s.said(); !strings.HasPrefix(got, c.systemd) || c.systemd == "" && got != "" {
				t.Errorf("systemd was asked %q, want %q", got, c.systemd)
			}
		})
	}
}

func TestALogindThatNeverAnswersIsAnErrorWithinALimit(t *testing.T) {
	for says, address := range map[string]string{
		"nobody reads the socket": deaf(t),
		"calls are not answered":  newPeer(t, func(*godbus.Conn) {}).address,
	} {
		err := powerOn(t, address, short).Reboot(t.Context(), "why")
		if err == nil {
			t.Errorf("%s: silence is an answer", says)
		}
	}
}

func TestTheBootIDIsTheMachines(t *testing.T) {
	own, err := NewPower(t.TempDir(), nil).BootID()
	if err != nil || own == "" {
		t.Fatalf("without a /proc of its own: %q, %v", own, err)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "proc/sys/kernel/random/boot_id")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte("its-own\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if id, err := NewPower(dir, nil).BootID(); err != nil || id != "its-own" {
		t.Errorf("it is %q, %v", id, err)
	}
}
