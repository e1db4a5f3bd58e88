package systemd

import (
	"path/filepath"
	"strings"
	"testing"

	godbus "github.com/godbus/dbus/v5"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/test/lostanswer"
)

// through returns the address of a proxy in front of a peer that loses answers.
func through(t *testing.T, peer string, lose func(n int, member string) bool) (string, *lostanswer.Bus) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proxy")
	target, err := godbus.UnescapeBusAddressValue(strings.TrimPrefix(peer, "unix:path="))
	if err != nil {
		t.Fatal(err)
	}
	return socket(path), lostanswer.NewBus(t, path, target, lose)
}

// rebooted requests a reboot as the daemon does: after a lost answer, it looks before it requests the reboot again. It
// fails the test if the machine does not go down, or a lost answer counts as a refusal.
func rebooted(t *testing.T, p Power) {
	t.Helper()
	for range 4 {
		err := p.Reboot(t.Context(), "why")
		if err == nil {
			return
		}
		if !fault.IsUnknown(err) {
			t.Fatalf("a lost answer counts as a refusal: %v", err)
		}
		if down, err := p.GoingDown(t.Context()); err == nil && down {
			return
		}
	}
	t.Fatal("the machine does not go down")
}

// TestWhereverTheSystemBusHangsUpTheMachineRebootsOnce loses the answer to each call to logind, in turn.
func TestWhereverTheSystemBusHangsUpTheMachineRebootsOnce(t *testing.T) {
	for says, old := range map[string]bool{"logind": false, "an older logind": true} {
		for k := 1; ; k++ {
			l := &logind{goesDown: true, old: old}
			address, proxy := through(t, newPeer(t, l.serve).address, func(n int, _ string) bool { return n == k })
			rebooted(t, powerOn(t, address, long))
			l.mu.Lock()
			if n := strings.Count(strings.Join(l.calls, "\n"), "reboot"); n != 1 {
				t.Errorf("%s: without an answer to call %d, %q, it was asked %d times", says, k, proxy.Calls(), n)
			}
			l.mu.Unlock()
			if calls := proxy.Calls(); len(calls) < k {
				t.Logf("%s: %d calls: %q", says, len(calls), calls)
				break
			}
		}
	}
}

// TestWhenTheBusIsGoneSystemdSaysWhetherTheMachineGoesDown: a shutdown stops the bus before systemd itself.
func TestWhenTheBusIsGoneSystemdSaysWhetherTheMachineGoesDown(t *testing.T) {
	queued := map[string]godbus.Variant{
		"ActiveState": godbus.MakeVariant("inactive"),
		"Job":         godbus.MakeVariant(jobOf{ID: 5, Path: "/org/freedesktop/systemd1/job/5"}),
	}
	active := map[string]godbus.Variant{
		"ActiveState": godbus.MakeVariant("active"),
		"Job":         godbus.MakeVariant(jobOf{Path: "/"}),
	}
	for says, c := range map[string]struct {
		shutdown map[string]godbus.Variant
		down     bool
	}{
		"shutdown.target is queued": {queued, true},
		"shutdown.target is active": {active, true},
		"systemd stops nothing":     {idleUnit, false},
	} {
		t.Run(says, func(t *testing.T) {
			l := &logind{goesDown: true}
			gone := false // from the request on
			address, _ := through(t, newPeer(t, l.serve).address, func(_ int, member string) bool {
				gone = gone || member == "RebootWithFlags"
				return gone
			})
			p := powerOn(t, address, long)
			p.units = unitsOn(t, newPeer(t, (&systemd{properties: c.shutdown}).serve).address, long)
			if err := p.Reboot(t.Context(), "why"); (err == nil) != c.down || err != nil && !fault.IsUnknown(err) {
				t.Errorf("the reboot: %v", err)
			}
			// Without logind, it is known that the machine goes down, and unknown that it does not.
			if down, err := p.GoingDown(t.Context()); down != c.down || (err == nil) != c.down {
				t.Errorf("it goes down: %t, %v", down, err)
			}
		})
	}
}

func TestAMachineWithoutABusWasNotAskedToReboot(t *testing.T) {
	err := powerOn(t, socket(filepath.Join(t.TempDir(), "none")), long).Reboot(t.Context(), "why")
	if err == nil || fault.IsUnknown(err) {
		t.Errorf("it says %v", err)
	}
}

func TestALogindThatNeverAnswersMayHaveAccepted(t *testing.T) {
	silent := func(c *godbus.Conn) {
		c.Export(hello{}, "/org/freedesktop/DBus", "org.freedesktop.DBus")
		never := func() *godbus.Error { select {} }
		c.ExportMethodTable(map[string]any{"ListInhibitors": never}, "/org/freedesktop/login1", logindIface)
	}
	p := powerOn(t, newPeer(t, silent).address, short)
	err := p.Reboot(t.Context(), "why")
	if !fault.IsUnknown(err) || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("it says %v", err)
	}
	if down, err := p.GoingDown(t.Context()); down || err == nil {
		t.Errorf("it goes down: %t, %v", down, err)
	}
}

// TestWhereverSystemdHangsUpItsCallsAreRepeated loses the answer to each call to systemd, in turn. Each of these calls
// can be made twice.
func TestWhereverSystemdHangsUpItsCallsAreRepeated(t *testing.T) {
	for name, call := range everything {
		for k := 1; ; k++ {
			s := &systemd{result: "done", properties: idleUnit}
			address, proxy := through(t, newPeer(t, s.serve).address, func(n int, _ string) bool { return n == k })
			if err := call(unitsOn(t, address, long), t.Context()); err != nil {
				t.Errorf("%s, without an answer to call %d, %q: %v", name, k, proxy.Calls(), err)
			}
			if len(proxy.Calls()) < k {
				break
			}
		}
	}
}
