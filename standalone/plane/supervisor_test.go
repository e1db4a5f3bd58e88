package plane

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func supervisor(t *testing.T) (s *Supervisor, reports chan string) {
	t.Helper()
	dir := t.TempDir()
	reports = make(chan string, 64)
	return NewSupervisor(SupervisorConfig{
		Logs: dir, Run: dir, Home: dir,
		Backoff: Backoff{First: time.Millisecond, Max: 4 * time.Millisecond, Reset: time.Hour},
		Report:  func(line string) { reports <- line },
	}), reports
}

func begin(t *testing.T, s *Supervisor, spec ProcessSpec) {
	t.Helper()
	if err := s.Start(spec); err != nil {
		t.Fatal(err)
	}
}

func TestADeadProcessIsReportedAndStartedAgainAfterAGrowingPause(t *testing.T) {
	st := newStage(t)
	s, reports := supervisor(t)
	begin(t, s, st.spec("etcd", 0, time.Minute))
	for n, pause := range []string{"1ms", "2ms", "4ms", "4ms"} {
		a := st.next()
		a.tell("die")
		a.lastWords()
		line := <-reports
		for _, want := range []string{
			"etcd ended after", "exit status 3", "restarting in " + pause + ";",
			s.Log("etcd"),
		} {
			if !strings.Contains(line, want) {
				t.Errorf("report %d lacks %q: %s", n+1, want, line)
			}
		}
		if got := s.Exits("etcd"); got != n+1 {
			t.Errorf("exits are %d, want %d", got, n+1)
		}
	}
	last := st.next()
	s.Stop()
	if got := last.lastWords(); got != "etcd term" {
		t.Errorf("last words are %q, want a stop by SIGTERM", got)
	}
	if len(reports) != 0 {
		t.Errorf("a wanted stop was reported: %s", <-reports)
	}
}

func TestAProcessThatLivedLongIsStartedAgainAfterTheFirstPause(t *testing.T) {
	st := newStage(t)
	s, reports := supervisor(t)
	s.cfg.Backoff.Reset = 0 // every life is a long one
	begin(t, s, st.spec("etcd", 0, time.Minute))
	for range 3 {
		st.next().tell("die")
		if line := <-reports; !strings.Contains(line, "restarting in 1ms") {
			t.Errorf("the pause has grown: %s", line)
		}
	}
	st.next()
	s.Stop()
}

func TestStagesStopInReverseOrderEachOnlyWhenTheLaterOneIsGone(t *testing.T) {
	st := newStage(t)
	s, _ := supervisor(t)
	begin(t, s, st.spec("etcd", 1, time.Minute))
	etcd := st.next()
	// It ignores SIGTERM: whoever comes after it has a second to come too early.
	begin(t, s, st.spec("stubborn", 2, time.Second))
	stubborn := st.next()

	order := make(chan string, 2)
	for _, a := range []*actor{etcd, stubborn} {
		go func() { a.lastWords(); order <- a.name }()
	}
	s.Stop()
	if first, second := <-order, <-order; first != "stubborn" || second != "etcd" {
		t.Errorf("stopped %s, then %s", first, second)
	}
}

func TestAProcessThatIgnoresSIGTERMIsKilledAfterItsGrace(t *testing.T) {
	st := newStage(t)
	s, _ := supervisor(t)
	begin(t, s, st.spec("stubborn", 0, 50*time.Millisecond))
	a := st.next()
	s.Stop()
	if got := a.lastWords(); got != "stubborn term" {
		t.Errorf("last words are %q: it was not asked first", got)
	}
}

func TestKillEndsAStopThatTakesTooLong(t *testing.T) {
	st := newStage(t)
	s, _ := supervisor(t)
	begin(t, s, st.spec("stubborn-1", 1, time.Hour))
	begin(t, s, st.spec("stubborn-2", 2, time.Hour))
	one, two := st.next(), st.next()
	stopped := make(chan struct{})
	go func() { s.Stop(); close(stopped) }()
	if one.name != "stubborn-2" {
		one, two = two, one
	}
	if one.in.Scan(); one.in.Text() != "stubborn-2 term" {
		t.Fatalf("heard %q, want the first half of a stop", one.in.Text())
	}
	s.Kill()
	<-stopped
	one.lastWords()
	two.lastWords()
}

func TestAChildDiesWithItsSupervisorEvenByKillMinus9(t *testing.T) {
	st := newStage(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"=supervisor", stageVar+"="+st.addr, "SUPERVISE_TEST_DIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	orphan := st.next()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := orphan.lastWords(); got != "" {
		t.Errorf("last words are %q, want sudden death", got)
	}
	// It may be found once more, on its last way out; after a sweep it is not.
	if _, err := StopLeftovers(dir, patience); err != nil {
		t.Error(err)
	}
	if records, _ := filepath.Glob(filepath.Join(dir, "*.pid")); len(records) != 0 {
		t.Errorf("records are left: %v", records)
	}
}

func TestWhatADeadProcessStartedDiesWithIt(t *testing.T) {
	st := newStage(t)
	s, _ := supervisor(t)
	begin(t, s, st.spec("parent", 0, time.Minute))
	parent := st.next()
	parent.tell("fork")
	grandchild := st.next()
	parent.tell("die")
	grandchild.lastWords()
	st.next() // the parent, again
	s.Stop()
}

func TestAChildLeadsItsOwnProcessGroupSoThatCtrlCReachesOnlyTheSupervisor(t *testing.T) {
	st := newStage(t)
	s, _ := supervisor(t)
	begin(t, s, st.spec("etcd", 0, time.Minute))
	a := st.next()
	group, err := syscall.Getpgid(a.pid)
	if err != nil || group != a.pid {
		t.Errorf("process group is %d, %v; want %d", group, err, a.pid)
	}
	s.Stop()
}

func TestAnExecutableThatIsMissingIsAnErrorOfStart(t *testing.T) {
	s, _ := supervisor(t)
	err := s.Start(ProcessSpec{Name: "etcd", Path: "/nonexistent/etcd", Args: []string{"etcd"}})
	if err == nil || !strings.Contains(err.Error(), "starting etcd") ||
		!strings.Contains(err.Error(), "/nonexistent/etcd") {
		t.Errorf("got %v", err)
	}
	s.Stop()
}

func TestAfterAStopNothingStarts(t *testing.T) {
	st := newStage(t)
	s, _ := supervisor(t)
	s.Stop()
	if err := s.Start(st.spec("etcd", 0, time.Minute)); err == nil {
		t.Error("it started")
	}
}
