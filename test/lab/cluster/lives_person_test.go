package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/test/lab/cluster"
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
	saved     []byte
	savedMode os.FileMode
}

// drifts tells whether what she does is drift, which the daemon has to report at once. A mount is drift too, but
// nothing tells the daemon of it before its next scan.
func (a *act) drifts() bool {
	return slices.Contains([]string{"edit", "mask", "delete", "chmod", "replace", "disable"}, a.kind)
}

// anticipates tells whether what she does to a file is what the update wants: then nothing is in its way.
func (a *act) anticipates(old, now entry) bool {
	switch a.kind {
	case "delete":
		return now.kind == ""
	case "replace":
		return now.kind == "directory"
	case "chmod":
		return now.kind == "file" && now.text == old.text
	}
	return false
}

// named is what the daemon's message has to have: the end of a path, because the config may spell it otherwise.
func (a *act) named() string {
	if a.kind == "full" || a.kind == "immutable directory" {
		return filepath.Base(filepath.Dir(a.at))
	}
	return filepath.Base(a.at)
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

// choose picks what a person does during the change of a node. Once in eight, it is nothing. What can be done to few
// changes is picked when it can: of some ideas, the one that was picked least.
func (l *lives) choose(r *rand.Rand, old, now config) *act {
	if r.IntN(8) == 0 {
		return nil
	}
	var best *act
	for range 60 {
		if a := chooseOne(r, old, now); a != nil && (best == nil || l.chosen[a.kind] < l.chosen[best.kind]) {
			best = a
		}
	}
	if best != nil {
		l.chosen[best.kind]++
	}
	return best
}

// kinds are what people do. The twofold ones are twice as likely.
var kinds = []string{
	"touch", "kill the daemon", "restart kubelet", "stop kubelet", "cut the power", "reboot", "cordon", "uncordon",
	"cordon anew",
	"delete the controller", "delete the daemon", "edit", "delete", "chmod", "replace", "disable", "immutable",
	"immutable", "append-only", "immutable directory", "mount", "mask", "mask", "full", "full", "twice",
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
	a.kind = kinds[r.IntN(len(kinds))]
	changed := func(path string) bool { return now.paths[path] != old.paths[path] }
	var both, changing []string // files of old that the update leaves alone, and those that it changes
	for _, s := range spaces {
		if old.paths[s.path].kind != "file" {
			continue
		}
		is, shall := old.paths[s.path], now.paths[s.path]
		if is.spelling = shall.spelling; is != shall {
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
	case "cordon anew": // What Bunsen cordoned.
		if a.when != draining && a.phase == "" {
			a.kind = "nothing"
		}
	case "touch":
		pick(both)
	case "edit", "delete", "chmod", "replace", "mount":
		// What the update changes would be changed back by whoever undoes this.
		if a.when == before {
			both = append(both, slices.DeleteFunc(changing, func(path string) bool {
				return a.anticipates(old.paths[path], now.paths[path])
			})...)
		}
		a.obstructs = pick(both) && a.when == before
	case "immutable", "append-only", "immutable directory":
		a.obstructs = pick(changing) && a.when == before
	case "full":
		var growing []string
		for _, name := range []string{"/a", "/b"} {
			if path := cluster.SmallDisk + name; changed(path) && now.paths[path].kind == "file" {
				growing = append(growing, path)
			}
		}
		a.obstructs = pick(growing) && a.when == before
	case "disable":
		var enabled []string
		for _, name := range []string{"fstrim.timer", "lives-quick.service", "lives-slow.service"} {
			if u := now.units[name]; u.enabled != nil && *u.enabled && u.same(old.units[name]) {
				enabled = append(enabled, name)
			}
		}
		a.obstructs = pick(enabled) && a.when == before
	case "twice":
		// A config that names one place by two paths, which only the host knows.
		a.at, a.when, a.obstructs = alias+"/twice", before, true
	case "mask":
		// A unit of the host's packages: the file of another unit would be in the place of the mask.
		const name = "fstrim.timer"
		u, was := now.units[name], old.units[name]
		if u.enabled != nil && *u.enabled && (was.same(unit{}) || was.same(u)) {
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

// at is a path of the host as this machine sees it.
func (l *life) at(path string) string {
	if in, on := strings.CutPrefix(path, cluster.SmallDisk); on {
		return filepath.Join(l.c.SmallDisks[l.host.Name], in)
	}
	return filepath.Join(l.host.Root, path)
}

// do does it.
func (l *life) do(ctx context.Context, a *act) error {
	l.lives.mu.Lock()
	l.played[a.kind]++
	l.lives.mu.Unlock()
	h, at := l.host, l.at(a.at)
	switch a.kind {
	case "touch":
		now := time.Now()
		return os.Chtimes(at, now, now)
	case "kill the daemon":
		// It may be dead already, or between two lives.
		l.exec("pkill", "-KILL", "-f", "machine-config-daemon start") //nolint:errcheck // see above
		return nil
	case "restart kubelet":
		return l.persistently("systemctl", "--no-block", "restart", "kubelet")
	case "cut the power", "reboot":
		boots := h.Boots()
		if a.kind == "reboot" {
			l.exec("systemctl", "--no-block", "reboot") //nolint:errcheck // it may go down before it answers
		} else {
			h.PowerCut()
		}
		_, err := l.watch.await(ctx, h.Name, func(sight) bool { return h.Boots() > boots })
		return err
	case "cordon", "uncordon", "cordon anew":
		if a.kind != "cordon" {
			l.uncordon()
		}
		if a.kind != "uncordon" {
			l.c.Kubectl("cordon", h.Name)
		}
		return nil
	case "stop kubelet":
		return l.persistently("systemctl", "stop", "kubelet")
	case "delete the controller":
		l.c.Kubectl("-n", "bunsen-system", "delete", "pod", "--wait=false", "--selector=k8s-app=machine-config-controller")
		return nil
	case "delete the daemon":
		l.c.Kubectl("-n", "bunsen-system", "delete", "pod", "--wait=false", "--selector=k8s-app="+daemon,
			"--field-selector=spec.nodeName="+h.Name)
		return nil
	case "edit", "delete", "chmod", "replace":
		is, errStat := os.Stat(at)
		text, errRead := os.ReadFile(at)
		if err := errors.Join(errStat, errRead); err != nil {
			return err
		}
		a.saved, a.savedMode = text, is.Mode().Perm()
		l.touched(a.at, true)
		switch a.kind {
		case "edit":
			return os.WriteFile(at, append(text, "# an edit\n"...), 0o600) // the mode of a file that is there stays
		case "chmod":
			return os.Chmod(at, a.savedMode^0o111)
		case "replace":
			return errors.Join(os.Remove(at), os.Mkdir(at, 0o755))
		}
		return os.Remove(at)
	case "append-only":
		return chattr("+a", at)
	case "immutable directory":
		return chattr("+i", filepath.Dir(at))
	case "full":
		// dd ends with an error when the disk is full.
		l.exec("dd", "if=/dev/zero", "of="+cluster.SmallDisk+"/filler", "bs=4k") //nolint:errcheck // see above
		return nil
	case "disable":
		l.touched("unit "+a.at, true)
		return l.persistently("systemctl", "disable", a.at)
	case "twice":
		l.push("One place by two paths", map[string]string{l.twice(): `{"ignition": {"version": "3.5.0"}, "storage":
  {"files": [{"path": "/etc/lives-real/twice", "contents": {"source": "data:,a"}},
  {"path": "/etc/lives-alias/twice", "contents": {"source": "data:,b"}}]}}`})
		return nil
	case "immutable":
		return chattr("+i", at)
	case "mount":
		l.touched(a.at, true)
		l.mu.Lock()
		l.hands[a.at] = time.Now().Add(time.Hour) // see drifts
		l.mu.Unlock()
		return l.persistently("mount", "--bind", "/etc/passwd", a.at)
	case "mask":
		l.touched("unit "+a.at, true)
		l.touched("/etc/systemd/system/"+a.at, true)
		return l.persistently("systemctl", "mask", a.at)
	}
	return fmt.Errorf("nobody knows how to %s", a.kind)
}

// persistently runs a program until it succeeds, because the host may be rebooting.
func (l *life) persistently(argv ...string) error {
	var out string
	var err error
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); pass(l.t.Context(), time.Second) {
		if out, err = l.exec(argv...); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w\n%s", err, out)
}

// chattr changes an attribute of a path. The update may have removed the path, or put a link in its place.
func chattr(change, at string) error {
	if is, err := os.Lstat(at); err != nil || !is.Mode().IsRegular() && !is.IsDir() {
		return nil //nolint:nilerr // see above
	}
	if out, err := exec.Command("chattr", change, at).CombinedOutput(); err != nil {
		return fmt.Errorf("chattr %s %s: %w\n%s", change, at, err, out)
	}
	return nil
}

// undo undoes it.
func (l *life) undo(a *act) error {
	at := l.at(a.at)
	switch a.kind {
	case "cordon", "cordon anew":
		l.uncordon()
	case "stop kubelet":
		l.exec("systemctl", "--no-block", "start", "kubelet") //nolint:errcheck // a reboot undoes it too
	case "edit", "delete", "chmod", "replace":
		defer l.touched(a.at, false)
		if a.kind == "replace" {
			if err := os.Remove(at); err != nil {
				return err
			}
		}
		return errors.Join(os.WriteFile(at, a.saved, 0o600), os.Chmod(at, a.savedMode))
	case "append-only":
		return chattr("-a", at)
	case "immutable directory":
		return chattr("-i", filepath.Dir(at))
	case "full":
		// The host may be rebooting, also since before she filled the disk.
		return l.persistently("rm", "-f", cluster.SmallDisk+"/filler")
	case "disable":
		defer l.touched("unit "+a.at, false)
		return l.persistently("systemctl", "enable", a.at)
	case "twice":
		l.push("One place by one path", map[string]string{l.twice(): ""})
		l.reconcile()
	case "immutable":
		return chattr("-i", at)
	case "mount":
		defer l.touched(a.at, false)
		// A reboot undoes it too. Nothing tells the daemon of an unmount before its next scan, but of a touched file.
		l.exec("umount", a.at) //nolint:errcheck // see above
		l.exec("touch", a.at)  //nolint:errcheck // see above
	case "mask":
		defer l.touched("unit "+a.at, false)
		defer l.touched("/etc/systemd/system/"+a.at, false)
		return l.persistently("systemctl", "unmask", a.at)
	}
	return nil
}

func (l *life) uncordon() {
	begun := time.Now()
	l.c.Kubectl("uncordon", l.host.Name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uncordoned = [2]time.Time{begun, time.Now()}
}

// twice is the document of a config that names one place twice.
func (l *life) twice() string { return "pools/worker/nodes/" + l.host.Name + "/70-twice.ign" }

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
