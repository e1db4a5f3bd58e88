package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// speed are kernel arguments that only make an emulated machine faster.
const speed = " raid=noautodetect tsc=reliable no_timer_check cryptomgr.notests rcupdate.rcu_expedited=1 audit=0 " +
	"apparmor=0"

// firstBoot are what the boot loader adds while the machine's stamp says that it was never booted.
const firstBoot = " ignition.firstboot=1 ignition.platform.id=qemu rd.neednet=1 ip=dhcp rd.shell=0 " +
	"rd.emergency=poweroff"

// maxBoots is more than any life has: a machine that goes in circles is stopped.
const maxBoots = 30

// dataSerial is the serial number of the second disk, which the table of facts has.
const dataSerial = "DATA0001"

// machine is an emulated computer with two disks: one with the OS, and an empty one. It is switched on by start, and
// again after each reboot and power cut.
type machine struct {
	dir, disk, data string
	// ignition is the pointer config, in the place where QEMU's firmware hands it over.
	ignition string
	netdev   string

	mu    sync.Mutex
	qemu  *exec.Cmd
	off   bool // nobody switches it on again
	boots []entry
	err   error
	gone  chan struct{}
}

// prepare copies the disk; what live switches on is switched off when the test ends.
func (m *machine) prepare(t *testing.T, from string) {
	t.Helper()
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m.disk, m.gone = filepath.Join(m.dir, "disk.raw"), make(chan struct{})
	if out, err := exec.Command("cp", "--sparse=always", "--reflink=auto", from, m.disk).CombinedOutput(); err != nil {
		t.Fatalf("copying the disk: %v\n%s", err, out)
	}
	m.data = filepath.Join(m.dir, "data.raw")
	empty, err := os.Create(m.data)
	if err == nil {
		err = errors.Join(empty.Truncate(64<<20), empty.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.mu.Lock()
		m.off = true
		if m.qemu != nil {
			_ = m.qemu.Process.Kill() // one that has ended needs no killing
		}
		on := len(m.boots) > 0
		m.mu.Unlock()
		if on {
			<-m.gone
		}
	})
}

// live boots the machine until it is switched off for good or cannot boot.
func (m *machine) live() {
	defer close(m.gone)
	for {
		cmd, err := m.on()
		if err == nil && cmd == nil {
			return
		}
		if err == nil {
			if err = cmd.Wait(); err != nil && m.killed(err) {
				err = nil
			}
		}
		if err != nil {
			m.mu.Lock()
			m.err = err
			m.mu.Unlock()
			return
		}
	}
}

// killed tells whether a QEMU ended because somebody cut its power.
func (m *machine) killed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// on boots the newest entry once; nil when the machine is to stay off.
func (m *machine) on() (*exec.Cmd, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off {
		return nil, nil //nolint:nilnil // neither is the answer
	}
	if len(m.boots) >= maxBoots {
		return nil, fmt.Errorf("it was booted %d times", len(m.boots))
	}
	e, err := load(m.disk, m.dir)
	if err != nil {
		return nil, err
	}
	options := e.options + speed
	if e.firstBoot {
		options += firstBoot
	}
	m.qemu = exec.Command("qemu-system-x86_64",
		"-accel", "tcg,thread=multi", "-cpu", "qemu64,+ssse3,+sse4.1,+sse4.2,+cx16,+popcnt", "-machine", "q35", "-m",
		"1536", "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-chardev", "file,id=console,append=on,path="+m.console(), "-device", "isa-serial,chardev=console",
		"-chardev", "file,id=journal,append=on,path="+m.journal(), "-device", "isa-serial,chardev=journal",
		"-kernel", filepath.Join(m.dir, "linux"), "-initrd", filepath.Join(m.dir, "initrd"), "-append", options,
		"-drive", "file="+m.disk+",if=virtio,format=raw,cache=unsafe", "-device", "virtio-rng-pci",
		"-drive", "file="+m.data+",if=none,id=data,format=raw,cache=unsafe", "-device",
		"virtio-blk-pci,drive=data,serial="+dataSerial,
		"-fw_cfg", "name=opt/com.coreos/config,file="+m.ignition,
		"-netdev", m.netdev, "-device", "virtio-net-pci,netdev=n0")
	said, err := os.OpenFile(filepath.Join(m.dir, "qemu.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer said.Close() //nolint:errcheck // the process has its own
	m.qemu.Stdout, m.qemu.Stderr = said, said
	m.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	m.boots = append(m.boots, e)
	return m.qemu, m.qemu.Start()
}

func (m *machine) console() string { return filepath.Join(m.dir, "console.log") }
func (m *machine) journal() string { return filepath.Join(m.dir, "journal.log") }

// cut takes the power away: what the machine had not written to its disk is lost. It boots again.
func (m *machine) cut() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.qemu == nil {
		return errors.New("the machine is off")
	}
	return m.qemu.Process.Kill()
}

// booted returns what was booted so far.
func (m *machine) booted() ([]entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]entry(nil), m.boots...), m.err
}

// awaitLine waits until the machine's journal, from an offset on, has a text, and returns its line. The journal on the
// serial line is there at once, also when the machine loses its power right after.
func (m *machine) awaitLine(ctx context.Context, from int64, text string) (string, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if line, ok := lineWith(m.journal(), from, text); ok {
			return line, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for the journal to say %q: %w", text, ctx.Err())
		case <-tick.C:
		}
	}
}

// said is how long the journal is by now.
func (m *machine) said() int64 {
	info, err := os.Stat(m.journal())
	if err != nil {
		return 0
	}
	return info.Size()
}

// saidSince is what the journal has from an offset on.
func (m *machine) saidSince(from int64) string {
	text, err := os.ReadFile(m.journal())
	if err != nil || int64(len(text)) < from {
		return ""
	}
	return strings.ReplaceAll(string(text[from:]), "\r", "")
}

func lineWith(path string, from int64, text string) (string, bool) {
	file, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer file.Close() //nolint:errcheck // it is only read
	raw := make([]byte, 1<<20)
	n, err := file.ReadAt(raw, from)
	if n == 0 && err != nil {
		return "", false
	}
	at := strings.Index(string(raw[:n]), text)
	if at < 0 {
		return "", false
	}
	begin := strings.LastIndexByte(string(raw[:at]), '\n') + 1
	line, _, _ := strings.Cut(string(raw[begin:n]), "\n")
	return strings.TrimSpace(line), true
}
