package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// moment is when a person begins to interfere.
type moment string

const (
	before   moment = "before the commit"
	sometime moment = "some time after the commit"
	after    moment = "after the update"
	draining moment = "during the drain"
)

// act is what a person does on one host, and what it takes to undo it.
type act struct {
	kind string
	when moment
	// phase of the journal; "" unless when is a phase.
	phase host.Phase
	// delay after the moment, and how long until she undoes it.
	delay, lasts time.Duration
	// at is the path or the unit.
	at string
	// obstructs: the daemon cannot begin an update while it is there.
	obstructs bool
	// saved is what she puts back.
	saved string
}

func (a *act) String() string {
	if a == nil {
		return "nobody interferes"
	}
	when := string(a.when)
	if a.phase != "" {
		when = "in the phase " + string(a.phase)
	}
	return fmt.Sprintf("%s %s %s + %s, for %s", a.kind, a.at, when, a.delay, a.lasts)
}

// choose picks what a person does during the change of a node. Once in eight, it is nothing.
func choose(r *rand.Rand, old, now config) *act {
	if r.IntN(8) == 0 {
		return nil
	}
	for {
		if a := chooseOne(r, old, now); a != nil {
			return a
		}
	}
}

// chooseOne picks something, or nil where it is not possible.
func chooseOne(r *rand.Rand, old, now config) *act {
	most, _ := now.costFrom(old)
	a := &act{
		delay: time.Duration(r.IntN(1500)) * time.Millisecond,
		lasts: time.Duration(2+r.IntN(8)) * time.Second,
	}
	moments := []moment{before, sometime, after}
	if most >= drains {
		moments = append(moments, draining, "phase", "phase")
	}
	a.when = moments[r.IntN(len(moments))]
	if a.when == sometime {
		a.delay = time.Duration(r.IntN([]int{2000, 5000, 12000}[most])) * time.Millisecond
	}
	if a.when == "phase" {
		phases := []host.Phase{host.Applying, host.CheckingHealth}
		if most == reboots {
			phases = append(phases, host.Rebooting)
		}
		a.phase = phases[r.IntN(len(phases))]
		if a.phase == host.Applying {
			a.delay = time.Duration(r.IntN(30)) * time.Millisecond
		}
	}
	kinds := []string{
		"touch", "kill the daemon", "restart kubelet", "cut the power", "cordon", "uncordon",
		"edit", "immutable", "mount", "mask",
	}
	a.kind = kinds[r.IntN(len(kinds))]
	changed := func(path string) bool { return now.paths[path] != old.paths[path] }
	var both, changing []string // files of old that the update leaves alone, and those that it changes
	for _, s := range spaces {
		if old.paths[s.path].kind != "file" {
			continue
		}
		if changed(s.path) {
			changing = append(changing, s.path)
		} else {
			both = append(both, s.path)
		}
	}
	pick := func(from []string) bool {
		if len(from) == 0 {
			a.kind = "nothing"
			return false
		}
		a.at = from[r.IntN(len(from))]
		return true
	}
	switch a.kind {
	case "touch":
		pick(both)
	case "edit":
		// What the update changes would be changed back by whoever undoes this.
		if a.when == before {
			both = append(both, changing...)
		}
		a.obstructs = pick(both) && a.when == before
	case "immutable", "mount":
		a.obstructs = pick(changing) && a.when == before
		if a.kind == "mount" && a.when != before {
			// What is mounted at a path hides what the config has there: that is drift, which the message tells.
			pick(both)
		}
	case "mask":
		// A unit of the host's packages: the file of another unit would be in the place of the mask.
		const name = "fstrim.timer"
		if u, was := now.units[name], old.units[name]; u.enabled != nil && *u.enabled && was.same(unit{}) {
			a.obstructs = pick([]string{name}) && a.when == before
		} else {
			a.kind = "nothing"
		}
	}
	if a.kind == "nothing" {
		return nil
	}
	return a
}

// do does it.
func (l *life) do(a *act) error {
	h, at := l.host, filepath.Join(l.host.Root, a.at)
	in := func(argv ...string) error {
		out, err := l.exec(argv...)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
	switch a.kind {
	case "touch":
		now := time.Now()
		return os.Chtimes(at, now, now)
	case "kill the daemon":
		// It may be dead already, or between two lives.
		l.exec("pkill", "-KILL", "-f", "machine-config-daemon start") //nolint:errcheck // see above
		return nil
	case "restart kubelet":
		return in("systemctl", "--no-block", "restart", "kubelet")
	case "cut the power":
		l.mu.Lock()
		l.cuts, l.cutting = l.cuts+1, true
		l.mu.Unlock()
		h.PowerCut()
		return nil
	case "cordon", "uncordon":
		l.c.Kubectl(a.kind, h.Name)
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.kind == "uncordon" {
			l.uncordoned = time.Now()
		}
		return nil
	case "edit":
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		a.saved = string(text)
		l.touched(a.at, true)
		return os.WriteFile(at, append(text, "# an edit\n"...), 0o600) // the mode of a file that is there stays
	case "immutable":
		return exec.Command("chattr", "+i", at).Run()
	case "mount":
		l.touched(a.at, true)
		return in("mount", "--bind", "/etc/hostname", a.at)
	case "mask":
		l.touched("unit "+a.at, true)
		l.touched("/etc/systemd/system/"+a.at, true)
		return in("systemctl", "mask", a.at)
	}
	return fmt.Errorf("nobody knows how to %s", a.kind)
}

// undo undoes it.
func (l *life) undo(a *act) error {
	h, at := l.host, filepath.Join(l.host.Root, a.at)
	switch a.kind {
	case "cordon":
		l.c.Kubectl("uncordon", h.Name)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.uncordoned = time.Now()
	case "edit":
		defer l.touched(a.at, false)
		return os.WriteFile(at, []byte(a.saved), 0o600)
	case "immutable":
		return exec.Command("chattr", "-i", at).Run()
	case "mount":
		defer l.touched(a.at, false)
		// A reboot undoes it too.
		l.exec("umount", a.at) //nolint:errcheck // see above
	case "mask":
		defer l.touched("unit "+a.at, false)
		defer l.touched("/etc/systemd/system/"+a.at, false)
		if out, err := l.exec("systemctl", "unmask", a.at); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

// awaitMoment waits for the moment of an act, and reports whether it came before the end of the update.
func (l *life) awaitMoment(ctx context.Context, a *act) bool {
	if a.phase != "" {
		journal := filepath.Join(l.host.Root, host.StateDir, "journal.json")
		want := fmt.Sprintf("%q:%q", "Phase", a.phase)
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			if text, err := os.ReadFile(journal); err == nil && strings.Contains(string(text), want) {
				break
			}
			select {
			case <-ctx.Done():
				return false
			case <-tick.C:
			}
		}
	}
	if a.when == draining {
		if _, err := l.watch.await(ctx, l.host.Name, func(s sight) bool {
			return strings.HasPrefix(s.wantsDrain, "drain")
		}); err != nil {
			return false
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(a.delay):
		return true
	}
}
