package systemd

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

// short is the patience of tests whose peers are silent on purpose.
var short = timeouts{ask: 250 * time.Millisecond, reload: 250 * time.Millisecond, job: 250 * time.Millisecond}

// long is the patience of tests whose peers answer.
var long = timeouts{ask: time.Minute, reload: time.Minute, job: time.Minute}

// systemd answers as PID 1 does, and ends each job as it is told to.
type systemd struct {
	// result of every job; "" for one that never ends.
	result string
	// silent: methods are called and never answered.
	silent bool
	// properties of every unit.
	properties map[string]godbus.Variant

	mu    sync.Mutex
	conns []*godbus.Conn
	calls []string
	// called is told each call, when it is not nil.
	called chan string
}

const (
	systemdPath  = "/org/freedesktop/systemd1"
	systemdIface = "org.freedesktop.systemd1.Manager"
)

func (s *systemd) serve(c *godbus.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	c.Export(s, systemdPath, systemdIface)
	c.ExportSubtree(unitProperties{s}, systemdPath+"/unit", "org.freedesktop.DBus.Properties")
}

// say notes a call; a silent one waits until its test ends.
func (s *systemd) say(call string) {
	s.mu.Lock()
	s.calls = append(s.calls, call)
	silent := s.silent
	s.mu.Unlock()
	if s.called != nil {
		s.called <- call
	}
	if silent {
		select {}
	}
}

// await waits for a call of a method.
func (s *systemd) await(method string) {
	for call := range s.called {
		if strings.HasPrefix(call, method) {
			return
		}
	}
}

func (s *systemd) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.calls, "\n")
}

// Reload is systemd's daemon-reload.
func (s *systemd) Reload() *godbus.Error {
	s.say("Reload")
	return nil
}

// RestartUnit is systemd's.
func (s *systemd) RestartUnit(name, mode string) (godbus.ObjectPath, *godbus.Error) {
	return s.job("RestartUnit " + name + " " + mode)
}

// StartUnit is systemd's.
func (s *systemd) StartUnit(name, mode string) (godbus.ObjectPath, *godbus.Error) {
	return s.job("StartUnit " + name + " " + mode)
}

// ReloadOrRestartUnit is systemd's.
func (s *systemd) ReloadOrRestartUnit(name, mode string) (godbus.ObjectPath, *godbus.Error) {
	return s.job("ReloadOrRestartUnit " + name + " " + mode)
}

func (s *systemd) job(call string) (godbus.ObjectPath, *godbus.Error) {
	s.say(call)
	if strings.Contains(call, "masked.service") {
		return "", godbus.NewError("org.freedesktop.systemd1.UnitMasked", []any{"Unit masked.service is masked."})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.result != "" {
		for _, c := range s.conns {
			c.Emit(systemdPath, systemdIface+".JobRemoved", uint32(7), godbus.ObjectPath(systemdPath+"/job/7"),
				"a.service", s.result)
		}
	}
	return systemdPath + "/job/7", nil
}

// CancelJob is systemd's.
func (s *systemd) CancelJob(id uint32) *godbus.Error {
	s.say("CancelJob")
	if id != 7 {
		return godbus.NewError("org.freedesktop.systemd1.NoSuchJob", nil)
	}
	return nil
}

// unitProperties answers for every unit.
type unitProperties struct{ s *systemd }

// GetAll is D-Bus's.
func (u unitProperties) GetAll(string) (map[string]godbus.Variant, *godbus.Error) {
	u.s.say("GetAll")
	return u.s.properties, nil
}

func unitsOn(t *testing.T, address string, patient timeouts) *Units {
	t.Helper()
	b := &bus{address: address, timeouts: patient}
	t.Cleanup(b.close)
	return &Units{bus: b}
}

// everything that LiveUnits asks systemd for.
var everything = map[string]func(*Units, context.Context) error{
	"daemon-reload": (*Units).DaemonReload,
	"reload":        func(u *Units, ctx context.Context) error { return u.Reload(ctx, "a.service") },
	"restart":       func(u *Units, ctx context.Context) error { return u.Restart(ctx, "a.service") },
	"active": func(u *Units, ctx context.Context) error {
		_, _, _, err := u.Active(ctx, "a.service")
		return err
	},
}

func TestASystemdThatAcceptsAndNeverAnswersIsAnErrorWithinALimit(t *testing.T) {
	for says, address := range map[string]string{
		"nobody reads the socket": deaf(t),
		"calls are not answered":  newPeer(t, (&systemd{silent: true}).serve).address,
	} {
		for name, call := range everything {
			t.Run(says+"/"+name, func(t *testing.T) {
				err := call(unitsOn(t, address, short), t.Context())
				if err == nil || !strings.Contains(err.Error(), "no answer within 250ms") {
					t.Errorf("it says %v", err)
				}
			})
		}
	}
}

func TestASystemdThatIsNotThereIsAnError(t *testing.T) {
	for name, call := range everything {
		if err := call(unitsOn(t, socket(t.TempDir()+"/none"), short), t.Context()); err == nil ||
			!strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s says %v", name, err)
		}
	}
}

func TestAfterSilenceANewConnectionIsMade(t *testing.T) {
	s := &systemd{silent: true, result: "done"}
	u := unitsOn(t, newPeer(t, s.serve).address, short)
	if err := u.DaemonReload(t.Context()); err == nil {
		t.Fatal("silence is an answer")
	}
	s.mu.Lock()
	s.silent = false
	s.mu.Unlock()
	u.bus.timeouts = long
	for name, call := range everything {
		if err := call(u, t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) != 4 {
		t.Errorf("%d connections were made, want two pairs", len(s.conns))
	}
}

func TestASystemdThatClosesTheConnectionInTheMiddleIsAnErrorAndServesAgain(t *testing.T) {
	s := &systemd{}
	p := newPeer(t, s.serve)
	u := unitsOn(t, p.address, long)
	failed := make(chan error, 1)
	go func() { failed <- u.Restart(t.Context(), "a.service") }()
	var err error
	for waits := true; waits; { // a call on a connection that was used before is repeated on a new one
		select {
		case c := <-p.conns:
			c.Close()
		case err = <-failed:
			waits = false
		}
	}
	if err == nil {
		t.Fatal("a lost job is done")
	}
	for len(p.conns) > 0 {
		(<-p.conns).Close()
	}
	s.mu.Lock()
	s.result = "done"
	s.mu.Unlock()
	if err := u.Restart(t.Context(), "a.service"); err != nil {
		t.Error(err)
	}
}

func TestAJobWhoseConnectionIsLostIsNotWaitedFor(t *testing.T) {
	s := &systemd{called: make(chan string, 16)}
	p := newPeer(t, s.serve)
	u := unitsOn(t, p.address, long)
	if err := u.DaemonReload(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- u.Restart(t.Context(), "a.service") }()
	s.await("RestartUnit")
	go func() {
		for {
			select {
			case c := <-p.conns:
				c.Close()
			case <-t.Context().Done():
				return
			}
		}
	}()
	if err := <-failed; err == nil || strings.Contains(err.Error(), "cancelled") {
		t.Errorf("it says %v", err)
	}
}

func TestAJobThatNeverEndsIsCancelledAndAnError(t *testing.T) {
	properties := map[string]godbus.Variant{
		"ActiveState": godbus.MakeVariant("activating"),
		"SubState":    godbus.MakeVariant("start"),
	}
	for says, c := range map[string]struct {
		patient  timeouts
		deadline time.Duration
	}{
		"after the limit of a job": {timeouts{ask: time.Minute, job: 50 * time.Millisecond}, time.Hour},
		// long enough to connect and to ask on a busy machine
		"after the deadline of its caller": {long, 2 * time.Second},
	} {
		t.Run(says, func(t *testing.T) {
			s := &systemd{properties: properties}
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			defer cancel()
			err := unitsOn(t, newPeer(t, s.serve).address, c.patient).Restart(ctx, "a.service")
			if err == nil || !strings.Contains(err.Error(), "was cancelled") ||
				!strings.Contains(err.Error(), "activating (start)") {
				t.Errorf("it says %v", err)
			}
			if want := "RestartUnit a.service replace\nGetAll\nCancelJob"; s.said() != want {
				t.Errorf("systemd was asked\n%s\nwant\n%s", s.said(), want)
			}
		})
	}
}

func TestACallerWhoGivesUpLeavesTheJobAlone(t *testing.T) {
	s := &systemd{called: make(chan string, 16)}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	u := unitsOn(t, newPeer(t, s.serve).address, long)
	go func() { failed <- u.Restart(ctx, "a.service") }()
	s.await("RestartUnit")
	cancel()
	if err := <-failed; err == nil || strings.Contains(s.said(), "CancelJob") {
		t.Errorf("it says %v, and systemd was asked\n%s", err, s.said())
	}
}

func TestAJobsResultIsToldWithWhatIsKnownOfTheUnit(t *testing.T) {
	exited := map[string]godbus.Variant{
		"ActiveState": godbus.MakeVariant("failed"), "SubState": godbus.MakeVariant("failed"),
		"Result":       godbus.MakeVariant("exit-code"),
		"ExecMainCode": godbus.MakeVariant(int32(1)), "ExecMainStatus": godbus.MakeVariant(int32(3)),
	}
	killed := map[string]godbus.Variant{
		"ActiveState": godbus.MakeVariant("active"), "SubState": godbus.MakeVariant("running"),
		"Result":       godbus.MakeVariant("success"),
		"ReloadResult": godbus.MakeVariant("signal"), "ExecMainCode": godbus.MakeVariant(int32(2)),
		"ExecMainStatus": godbus.MakeVariant(int32(9)),
	}
	for result, c := range map[string]struct {
		is   map[string]godbus.Variant
		want string
	}{
		"done":    {exited, ""},
		"failed":  {exited, "restarting a.service: the job ended as failed: it is failed (failed), result exit-code, its main process exited with 3: see systemctl status a.service and journalctl -u a.service"},
		"timeout": {killed, "restarting a.service: the job ended as timeout: it is active (running), result of the reload signal, its main process was ended by signal 9: see systemctl status a.service and journalctl -u a.service"},
	} {
		t.Run(result, func(t *testing.T) {
			u := unitsOn(t, newPeer(t, (&systemd{result: result, properties: c.is}).serve).address, long)
			said := ""
			if err := u.Restart(t.Context(), "a.service"); err != nil {
				said = err.Error()
			}
			if said != c.want {
				t.Errorf("it says\n%s\nwant\n%s", said, c.want)
			}
		})
	}
}

func TestWhatSystemdRefusesIsToldInItsWords(t *testing.T) {
	err := unitsOn(t, newPeer(t, (&systemd{}).serve).address, long).Reload(t.Context(), "masked.service")
	if err == nil || err.Error() != "reloading masked.service: Unit masked.service is masked." {
		t.Errorf("it says %v", err)
	}
}

// The default policy reloads CRI-O, which nodes with containerd do not have.
func TestAReloadOfARuntimeThatTheNodeDoesNotHaveIsDone(t *testing.T) {
	absent := map[string]godbus.Variant{"LoadState": godbus.MakeVariant("not-found")}
	failed := map[string]godbus.Variant{"LoadState": godbus.MakeVariant("loaded")}
	for _, c := range []struct {
		unit  string
		is    map[string]godbus.Variant
		fails bool
	}{{"crio.service", absent, false}, {"crio.service", failed, true}, {"other.service", absent, true}} {
		u := unitsOn(t, newPeer(t, (&systemd{result: "failed", properties: c.is}).serve).address, long)
		if err := u.Reload(t.Context(), c.unit); (err != nil) != c.fails {
			t.Errorf("%s, %v: %v", c.unit, c.is, err)
		}
	}
}
