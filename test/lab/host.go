package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Options say what a host is like. The zero value is a host on the plain base, alone in its network.
type Options struct {
	// Name is the host's name; "" is host.
	Name string
	// Base is the directory that it stands on, which is not changed; "" is Base(t).
	Base string
	// Prepare changes the host's root before the first boot.
	Prepare func(root string) error
	// Network that it is tied to; nil: it has a loopback and nothing else.
	Network *Network
	// Containers lets a container runtime and a kubelet work in the host: with controllers of cgroups, all
	// capabilities, disks for images, and a network that does not outlive a boot.
	Containers bool
	// Args for systemd-nspawn, besides those that every host has.
	Args []string
	// Boot plays the boot loader: it is asked before boot n = 1, 2, … what to boot. nil boots the overlay on Base; with
	// it, Base and Prepare are not looked at.
	Boot func(n int) (Boot, error)
}

// Boot is what one boot of a host starts with.
type Boot struct {
	// Root directory.
	Root string
	// Args and Env for systemd-nspawn, besides those that every host has.
	Args, Env []string
}

// Host is a real host that runs until its test ends.
type Host struct {
	// Name of the host.
	Name string
	// Root is its root file system as this machine sees it, without what is mounted inside (/run, /tmp): see Inside.
	Root string
	// Upper has the files that were changed since Prepare, and before; "" with Options.Boot.
	Upper string
	// Address in its Network; "" without one.
	Address string

	t       testing.TB
	options Options
	place   *place
	life    *life
	// containers is nil without Options.Containers.
	containers *containers
}

// limit is how long anything may take that a host does by itself, on a machine that has other things to do too.
const limit = 2 * time.Minute

// Start makes a host and waits until it is up: every unit of its first boot started or failed.
func Start(t testing.TB, options Options) *Host {
	t.Helper()
	h := Launch(t, options)
	h.AwaitBoot(t.Context(), 1)
	return h
}

// Launch makes a host and does not wait until it is up, so that several can boot at once: AwaitBoot does.
func Launch(t testing.TB, options Options) *Host {
	t.Helper()
	Need(t)
	if options.Name == "" {
		options.Name = "host"
	}
	if options.Base == "" && options.Boot == nil {
		options.Base = Base(t)
	}
	h := &Host{Name: options.Name, t: t, options: options, place: newPlace(t)}
	if err := h.furnish(); err != nil {
		t.Fatalf("making host %s: %v", h.Name, err)
	}
	l, err := begin(h)
	if err != nil {
		t.Fatalf("starting host %s: %v", h.Name, err)
	}
	h.life = l
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			// udev fails in a container, in hundreds of lines at each boot. What matters may be some boots ago.
			said, err := h.Exec(ctx, "sh", "-c", "journalctl --no-pager --output=short-precise --boot=all | grep -v "+
				"udev | tail -n 3000")
			t.Logf("the journal of %s (%v):\n%s", h.Name, err, said)
		}
		if err := l.end(); err != nil {
			t.Errorf("ending host %s: %v", h.Name, err)
		}
		if t.Failed() {
			t.Logf("the console of %s:\n%s", h.Name, h.Console())
		}
	})
	return h
}

// furnish makes the root, the network and the cgroup.
func (h *Host) furnish() error {
	if err := newNetns(h.place, h.netns()); err != nil {
		return err
	}
	if h.options.Network != nil {
		var err error
		if h.Address, err = h.options.Network.tie(h.netns()); err != nil {
			return err
		}
	}
	mount, err := cgroups()
	if err != nil {
		return err
	}
	cgroup := filepath.Join(mount, "bunsen-"+h.place.id)
	if err := h.place.note("cgroup", cgroup); err != nil {
		return err
	}
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		return err
	}
	if h.options.Containers {
		if h.containers, err = newContainers(h.place); err != nil {
			return err
		}
	}
	if h.options.Boot != nil {
		return nil
	}
	return h.overlay()
}

// overlay mounts the root on the base.
func (h *Host) overlay() error {
	h.Root, h.Upper = filepath.Join(h.place.dir, "root"), filepath.Join(h.place.dir, "upper")
	work := filepath.Join(h.place.dir, "work")
	for _, dir := range []string{h.Root, h.Upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := h.place.note("mount", h.Root); err != nil {
		return err
	}
	if err := unix.Mount("bunsen-lab", h.Root, "overlay", 0, "lowerdir="+h.options.Base+",upperdir="+h.Upper+
		",workdir="+work); err != nil {
		return fmt.Errorf("mounting an overlay on %s: %w", h.options.Base, err)
	}
	if h.options.Prepare == nil {
		return nil
	}
	return h.options.Prepare(h.Root)
}

func (h *Host) netns() string { return "bunsen-" + h.place.id }

// AwaitBoot waits until boot n is up, 1 being the first, or was up; a host that ends instead fails the test.
func (h *Host) AwaitBoot(ctx context.Context, n int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it is not up after %s", limit))
	defer cancel()
	if err := h.life.await(ctx, n); err != nil {
		h.t.Fatalf("waiting for boot %d of %s: %v", n, h.Name, err)
	}
}

// Boots is how many boots came up so far.
func (h *Host) Boots() int { return h.life.state().boots }

// Cuts tells for each boot that ended so far whether its power was cut; otherwise the host asked for a reboot.
func (h *Host) Cuts() []bool { return slices.Clone(h.life.state().cuts) }

// Leader is the process id, on this machine, of the host's init; 0 while it is down.
func (h *Host) Leader() int { return h.life.state().leader }

// Inside is the host's root as the host itself sees it, with its mounts; another directory after each boot.
func (h *Host) Inside() string { return filepath.Join("/proc", strconv.Itoa(h.Leader()), "root") }

// Bus is the address of the host's system bus; another one after each boot.
func (h *Host) Bus() string { return "unix:path=" + h.Inside() + "/run/dbus/system_bus_socket" }

// BootID is what the host's kernel says; another one after each boot.
func (h *Host) BootID() string {
	h.t.Helper()
	return strings.TrimSpace(h.Do("cat", "/proc/sys/kernel/random/boot_id"))
}

// Exec runs a program inside, as root, and tells all that it said. It is no child of the host's init and in none of its
// units: for a program that should be, run systemd-run.
func (h *Host) Exec(ctx context.Context, argv ...string) (string, error) {
	out, err := h.Command(ctx, argv...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s on %s: %w", strings.Join(argv, " "), h.Name, err)
	}
	return string(out), err
}

// Command is a program inside, for whoever wants its input and output apart.
func (h *Host) Command(ctx context.Context, argv ...string) *exec.Cmd {
	// A shutdown stops every process of the host, and nsenter would then stop itself and leave its child unreaped, so
	// that the host never ends. The shell stays outside of the host's processes; it starts the program as its child and
	// reaps it.
	inside := []string{
		"--target", strconv.Itoa(h.Leader()), "--all", "--no-fork", "--", "/bin/sh", "-c",
		`"$@"; exit $?`, "sh",
	}
	cmd := exec.CommandContext(ctx, "nsenter", append(inside, argv...)...)
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"LANG=C.UTF-8",
	}
	cmd.WaitDelay = limit
	return cmd
}

// Do is Exec that fails the test.
func (h *Host) Do(argv ...string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	out, err := h.Exec(ctx, argv...)
	if err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// Sh is Do of a shell's script.
func (h *Host) Sh(script string) string {
	h.t.Helper()
	return h.Do("sh", "-euc", script)
}

// PowerCut ends every process of the host at once, and starts it again; it does not wait until it is up. The kernel is
// this machine's and goes on running, so what was written and never flushed is not lost: mcd/host/hosttest has that.
func (h *Host) PowerCut() {
	h.t.Helper()
	if err := h.life.cut(); err != nil {
		h.t.Fatalf("cutting the power of %s: %v", h.Name, err)
	}
}

// Console is the end of what the host said on its console, over all boots.
func (h *Host) Console() string {
	text, err := os.ReadFile(filepath.Join(h.place.dir, "console"))
	if err != nil {
		return errors.Join(errors.New("there is none"), err).Error()
	}
	return string(tail(text))
}
