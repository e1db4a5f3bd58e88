package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// rebootExit is how systemd-nspawn ends, kept in its unit, when the host asked for a reboot.
const rebootExit = 133

// life boots a host, again after each reboot, until it ends.
type life struct {
	host   *Host
	cgroup string
	// notify is the socket on which systemd-nspawn tells the leader and that the host is up.
	notify *net.UnixConn

	mu  sync.Mutex
	now state
	// changed is closed, and made anew, when now changes.
	changed chan struct{}
	// cutting is the boot whose power is cut. ending: the next end is the last.
	cutting int
	ending  bool
}

// state is how far a host is.
type state struct {
	// started counts boots that began, boots those that came up.
	started, boots int
	// leader is init's process id; 0 while the host is down.
	leader int
	// cuts tells for each boot that ended whether its power was cut.
	cuts []bool
	// ended says why there will be no other boot.
	ended error
}

func begin(h *Host) (*life, error) {
	mount, err := cgroups()
	if err != nil {
		return nil, err
	}
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@bunsen-lab/" + h.place.id, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	l := &life{
		host: h, cgroup: filepath.Join(mount, "bunsen-"+h.place.id), notify: notify,
		changed: make(chan struct{}),
	}
	go l.listen()
	go l.run()
	return l, nil
}

// run boots until the host ends. Its thread lives as long as it does: systemd-nspawn dies with the thread that started
// it.
func (l *life) run() {
	runtime.LockOSThread()
	for n := 1; ; n++ {
		l.set(func(s *state) { s.started, s.leader = n, 0 })
		err := l.boot(n)
		l.mu.Lock()
		asked := exitCode(err) == rebootExit
		cut := l.cutting == n && !asked
		again := !l.ending && (cut || asked)
		l.mu.Unlock()
		l.set(func(s *state) { s.leader, s.cuts = 0, append(s.cuts, cut) })
		if !again {
			l.set(func(s *state) { s.ended = errors.Join(errors.New("the host ended"), err) })
			return
		}
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// boot boots once, and returns when the host is down.
func (l *life) boot(n int) error {
	h, boot := l.host, Boot{Root: l.host.Root}
	if h.options.Boot != nil {
		var err error
		if boot, err = h.options.Boot(n); err != nil {
			return fmt.Errorf("choosing what to boot: %w", err)
		}
		l.mu.Lock()
		h.Root = boot.Root
		l.mu.Unlock()
	}
	console, err := os.OpenFile(filepath.Join(h.place.dir, "console"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer console.Close() //nolint:errcheck // the host wrote it
	// Each boot has a cgroup of its own: one that was killed once may end whatever is started in it.
	within := l.within(n)
	if err := os.Mkdir(within, 0o755); err != nil {
		return err
	}
	if err := l.noteTraces(boot.Root); err != nil {
		return err
	}
	cgroup, err := os.Open(within)
	if err != nil {
		return err
	}
	defer cgroup.Close()                     //nolint:errcheck // it is only entered
	fmt.Fprintf(console, "--- boot %d\n", n) //nolint:errcheck // it is read by people
	argv := append([]string{
		"--quiet", "--boot", "--directory=" + boot.Root, "--machine=bunsen-" + h.place.id, "--hostname=" + h.Name,
		"--register=no", "--keep-unit",
		"--network-namespace-path=/run/netns/" + h.netns(), "--resolv-conf=off", "--timezone=off", "--link-journal=no",
		"--notify-ready=yes", "--console=pipe",
	}, append(h.options.Args, boot.Args...)...)
	argv, env := append([]string{"systemd-nspawn"}, argv...), []string{"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1"}
	if c := h.containers; c != nil {
		argv, env = c.wrap(append(argv, c.args()...)), c.env()
		if err := freshNetwork(h); err != nil {
			return err
		}
	}
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // the test's own options
	cmd.Env = append(append(append(os.Environ(), env...), "NOTIFY_SOCKET="+l.notify.LocalAddr().String()), boot.Env...)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd()), Pdeathsig: syscall.SIGKILL}
	err = errors.Join(cmd.Run(), killAll(within))
	if h.containers != nil {
		err = errors.Join(err, h.containers.clear())
	}
	return err
}

// noteTraces writes down what systemd-nspawn leaves in /run when it is killed.
func (l *life) noteTraces(root string) error {
	var is syscall.Stat_t
	if err := syscall.Stat(root, &is); err != nil {
		return err
	}
	return errors.Join(
		l.host.place.note("path", "/run/systemd/nspawn/propagate/bunsen-"+l.host.place.id),
		l.host.place.note("path", fmt.Sprintf("/run/systemd/nspawn/locks/inode-%d:%d", is.Dev, is.Ino)),
	)
}

// within is the cgroup of one boot.
func (l *life) within(n int) string { return filepath.Join(l.cgroup, strconv.Itoa(n)) }

// listen reads what systemd-nspawn tells.
func (l *life) listen() {
	text := make([]byte, 64<<10)
	for {
		n, err := l.notify.Read(text)
		if err != nil {
			return
		}
		for line := range bytes.Lines(text[:n]) {
			key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
			switch key {
			case "X_NSPAWN_LEADER_PID":
				if pid, err := strconv.Atoi(value); err == nil {
					l.set(func(s *state) { s.leader = pid })
				}
			case "READY":
				l.set(func(s *state) { s.boots = s.started })
			}
		}
	}
}

func (l *life) set(change func(*state)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.now)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *life) state() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// await returns when boot n is up.
func (l *life) await(ctx context.Context, n int) error {
	for {
		l.mu.Lock()
		now, changed := l.now, l.changed
		l.mu.Unlock()
		if now.boots >= n {
			return nil
		}
		if now.ended != nil {
			return now.ended
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// cut is a power cut. It returns when every process is gone; the next boot begins by itself.
func (l *life) cut() error {
	l.mu.Lock()
	now := l.now
	l.cutting = now.started
	l.mu.Unlock()
	if now.ended != nil {
		return now.ended
	}
	return killAll(l.within(now.started))
}

// end ends the host for good.
func (l *life) end() error {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	for {
		if err := killAll(l.cgroup); err != nil {
			return err
		}
		l.mu.Lock()
		now, changed := l.now, l.changed
		l.mu.Unlock()
		if now.ended != nil {
			return l.notify.Close()
		}
		<-changed
	}
}
