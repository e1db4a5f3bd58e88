package host_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/test/lab"
)

// TestARealHost is one life of a host: this binary runs inside of it; then it is asked to reboot
// while somebody minds, and loses its power.
func TestARealHost(t *testing.T) {
	h := furnished(t)
	t.Run("inside", func(t *testing.T) {
		// Not by systemd-run, which loses sight of what it started when systemd starts anew.
		out, err := h.Exec(t.Context(), "env", insideVariable+"=suite", suite, "-test.v")
		t.Log(out)
		if err != nil {
			t.Fatal(err)
		}
	})
	for says, c := range map[string]struct{ enter, root string }{
		"a daemon in a container that has entered the host's root":     {"chroot /run/pod", "/"},
		"a daemon in a container that has the host's root as a volume": {"", "/run/pod"},
	} {
		t.Run(says, func(t *testing.T) {
			out := h.Sh("unshare --mount --pid --net --ipc --uts --fork sh -euc 'mkdir -p /run/pod; mount --rbind / " +
				"/run/pod; " +
				c.enter + " env " + insideVariable + "=pod " + rootVariable + "=" + c.root + " " + suite + "'")
			if want := "active running success " + h.BootID() + "\n"; out != want {
				t.Errorf("it says %q, want %q", out, want)
			}
		})
	}
	t.Run("a reboot that somebody blocks is refused and not forced", func(t *testing.T) { blocked(t, h) })
	t.Run("a reboot that somebody delays waits for that, tells those who are logged in, and comes back",
		func(t *testing.T) { delayed(t, h) })
	t.Run("a reboot whose answer gets lost, at any call, happens once", func(t *testing.T) { lostAnswers(t, h) })
	t.Run("a power cut is a boot as well", func(t *testing.T) {
		before, next := bootID(t, h), h.Boots()+1
		h.PowerCut()
		h.AwaitBoot(t.Context(), next)
		if bootID(t, h) == before {
			t.Error("it is the same boot")
		}
	})
}

// bootID asks the host from here, by its root as the kernel shows it.
func bootID(t *testing.T, h *lab.Host) string {
	t.Helper()
	opened, closeHost, err := linux.OpenHost(t.Context(), h.Inside())
	if err != nil {
		t.Fatal(err)
	}
	defer closeHost()
	id, err := opened.Power.BootID()
	if err != nil || id != h.BootID() {
		t.Fatalf("the boot is %q, %v; the host says %q", id, err, h.BootID())
	}
	return id
}

func blocked(t *testing.T, h *lab.Host) {
	h.Do("systemd-run", "--quiet", "--unit=blocker", "--property=Type=notify", "--property=NotifyAccess=all",
		"systemd-inhibit",
		"--what=shutdown", "--mode=block", "--who=backup", "--why=nightly copy", "sh", "-c",
		"systemd-notify --ready; exec sleep infinity")
	out, err := inside(t, h, "reboot", "--wait", "--pipe")
	t.Log(out)
	if err == nil || !strings.Contains(out, `blocked by backup ("nightly copy", uid 0`) {
		t.Errorf("it ends with %v", err)
	}
	h.Do("systemctl", "stop", "blocker")
	if h.Boots() != 1 || h.Do("systemctl", "is-system-running") != "running\n" {
		t.Errorf("after %d boots it is %s", h.Boots(), h.Do("systemctl", "is-system-running"))
	}
}

func delayed(t *testing.T, h *lab.Host) {
	h.Do("systemd-run", "--quiet", "--unit=terminal", "sh", "-c", "sleep infinity | script --quiet --flush --command "+
		"'login -f root' /var/log/terminal")
	if _, err := inside(t, h, "delay"); err != nil {
		t.Fatal(err)
	}
	h.Sh("until [ -e /run/holding ] && who | grep -q root; do sleep 0.05; done")
	before, began := bootID(t, h), time.Now()
	if out, err := inside(t, h, "reboot", "--wait", "--pipe"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h.AwaitBoot(t.Context(), 2)
	t.Logf("it was back %s after it was asked", time.Since(began).Round(time.Millisecond))
	if bootID(t, h) == before {
		t.Error("it is the same boot")
	}
	if got := h.Do("cat", "/var/log/database"); got != "flushed\n" {
		t.Errorf("the delay was not waited for: %q", got)
	}
	said := h.Do("cat", "/var/log/terminal")
	t.Log(said)
	if !strings.Contains(said, rebootText) {
		t.Error("who is logged in was not told why")
	}
}
