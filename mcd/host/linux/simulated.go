package linux

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// osPath keeps the OS of a simulated host: what "runs" and what the next reboot will bring.
const osPath = "/etc/bunsen-simulated-os.json"

// Simulated opens a directory as a simulated host. A new, empty directory is furnished with what the daemon expects of a
// machine: accounts, a preset that disables what nobody enables, an OS. Files, units and enablement are real; say is
// told one line for each reload, restart and reboot, which are not. Close the Root when done.
func Simulated(dir string, say func(line string)) (host.Host, *Root, error) {
	root, err := OpenRoot(dir)
	if err != nil {
		return host.Host{}, nil, err
	}
	if err := furnish(root); err != nil {
		root.Close() //nolint:errcheck,gosec // the first error is the one to tell
		return host.Host{}, nil, fmt.Errorf("furnishing simulated host %s: %w", dir, err)
	}
	units := SimulatedUnits{Enablement: Enablement{root}, Say: say}
	return host.Host{
		Files: root, Disk: root, Units: units, Passwd: AccountFiles{root}, OS: SimulatedOS{root}, Power: SimulatedPower{root, say},
		Journal: Journal{root}, Store: Store{root}, Same: root.Same, Unprivileged: !root.privileged,
	}, root, nil
}

// AtRest opens the root of a machine that does not run: an image's, or a directory under test. Nothing is added to it. Files
// and enablement are real; users and groups change by the tools inside of it, or those outside with --root; say is told one
// line for each reload, restart and reboot, which the machine's next start makes good. Its OS cannot be changed. Close the
// Root when done.
func AtRest(dir string, say func(line string)) (host.Host, *Root, error) {
	root, err := OpenRoot(dir)
	if err != nil {
		return host.Host{}, nil, err
	}
	h := host.Host{
		Files: root, Disk: root, Units: SimulatedUnits{Enablement: Enablement{root}, Say: say}, Passwd: newShadowUtils(root, dir),
		OS: restingOS{}, Power: restingPower{say}, Journal: Journal{root}, Store: Store{root}, Same: root.Same, Unprivileged: !root.privileged,
	}
	if h.Unprivileged {
		h.Passwd = AccountFiles{root}
	}
	return h, root, nil
}

// restingOS is the OS of a machine that does not run.
type restingOS struct{}

// Status implements host.OperatingSystem.
func (restingOS) Status(context.Context) (host.OSStatus, error) {
	return host.OSStatus{Support: host.Support{Why: "it does not run, and only a running machine can stage an OS"}}, nil
}

// Stage implements host.OperatingSystem.
func (restingOS) Stage(_ context.Context, step host.Step) error {
	return fmt.Errorf("%s: %w", step.Verb, host.ErrUnsupported)
}

// restingPower is the switch of a machine that is off already.
type restingPower struct{ say func(line string) }

// BootID implements host.Power.
func (restingPower) BootID() (string, error) { return "at-rest", nil }

// Reboot implements host.Power.
func (p restingPower) Reboot(_ context.Context, why string) error {
	p.say("at rest: reboot (" + strings.TrimSpace(why) + ")")
	return nil
}

// furniture is what a simulated host has from the start.
var furniture = map[string]string{
	"/etc/passwd":     "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000:CoreOS Admin:/home/core:/bin/bash\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
	"/etc/group":      "root:x:0:\nwheel:x:10:core\nusers:x:100:\ncore:x:1000:\nnobody:x:65534:\n",
	"/etc/shadow":     "root:*::0:99999:7:::\ncore:*::0:99999:7:::\nnobody:*::0:99999:7:::\n",
	"/etc/os-release": "ID=bunsen-simulated\nPRETTY_NAME=\"Bunsen simulated host\"\n",
	"/usr/lib/systemd/system-preset/99-default-disable.preset": "disable *\n",
}

func furnish(root *Root) error {
	home := host.Entry{Kind: host.Dir, Mode: 0o700, Owner: host.Owner{UID: 1000, GID: 1000}}
	for _, dir := range []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/var/lib", "/run", "/home"} {
		if err := root.mkdirs(dir); err != nil {
			return err
		}
	}
	if is, err := root.Stat("/home/core"); err != nil || is.Kind == host.Absent {
		if err := root.Mkdir("/home/core", home); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(furniture)) {
		if is, err := root.Stat(p); err != nil || is.Kind != host.Absent {
			continue
		}
		if err := root.mkdirs(path.Dir(p)); err != nil {
			return err
		}
		mode := uint32(0o644)
		if p == host.ShadowPath {
			mode = 0o600
		}
		if err := root.Write(p, host.Entry{Mode: mode}, []byte(furniture[p])); err != nil {
			return err
		}
	}
	if is, err := root.Stat(osPath); err != nil || is.Kind != host.Absent {
		return err
	}
	first := host.OS{Kargs: "ro root=simulated", KernelType: "default"}
	return (SimulatedOS{root}).save(simulatedOS{Booted: first, Next: first, Boots: 1})
}

// SimulatedUnits enables units for real, and says what it would start.
type SimulatedUnits struct {
	Enablement
	// Say is told one line for each thing that is not done.
	Say func(line string)
}

// DaemonReload implements host.Units.
func (u SimulatedUnits) DaemonReload(context.Context) error {
	u.Say("simulated: daemon-reload")
	return nil
}

// Reload implements host.Units.
func (u SimulatedUnits) Reload(_ context.Context, name string) error { return u.act("reload", name) }

// Restart implements host.Units.
func (u SimulatedUnits) Restart(_ context.Context, name string) error { return u.act("restart", name) }

// act says it. A service without a unit file is said too: a simulated host has no packages, so most are not there.
func (u SimulatedUnits) act(verb, name string) error {
	file, err := u.find(name)
	if err != nil {
		return err
	}
	if file.masked {
		return fmt.Errorf("unit %s is masked", name)
	}
	u.Say("simulated: " + verb + " " + name)
	return nil
}

// SimulatedOS keeps the OS in a file; a simulated reboot makes what is staged run.
type SimulatedOS struct{ root *Root }

// simulatedOS is that file.
type simulatedOS struct {
	// Booted runs, Next is staged.
	Booted, Next host.OS
	// Boots counts them, and makes the boot id.
	Boots int
}

func (o SimulatedOS) load() (s simulatedOS, err error) {
	text, err := o.root.Read(osPath)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w", osPath, err)
	}
	return s, nil
}

func (o SimulatedOS) save(s simulatedOS) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return o.root.Write(osPath, host.Entry{Mode: 0o644}, append(text, '\n'))
}

// Status implements host.OperatingSystem.
func (o SimulatedOS) Status(context.Context) (host.OSStatus, error) {
	s, err := o.load()
	all := host.Support{Image: true, Kargs: true, KernelType: true, Extensions: true}
	return host.OSStatus{Booted: s.Booted, Next: s.Next, Support: all}, err
}

// Stage implements host.OperatingSystem.
func (o SimulatedOS) Stage(_ context.Context, step host.Step) error {
	s, err := o.load()
	if err != nil {
		return err
	}
	switch step.Verb {
	case host.SetImage:
		s.Next.Image = step.After.Word
	case host.SetKernelType:
		s.Next.KernelType = step.After.Word
	case host.SetExtensions:
		s.Next.Extensions = step.After.Word
	case host.SetKargs:
		s.Next.Kargs = host.EditKargs(s.Next.Kargs, step.Before.Word, step.After.Word)
	default:
		return fmt.Errorf("%s is not a part of the OS", step.Verb)
	}
	return o.save(s)
}

// SimulatedPower reboots by counting: what was staged runs, and whoever listens to Say knows.
type SimulatedPower struct {
	root *Root
	// Say is told of each reboot.
	say func(line string)
}

// BootID implements host.Power.
func (p SimulatedPower) BootID() (string, error) {
	s, err := (SimulatedOS{p.root}).load()
	return "simulated-" + strconv.Itoa(s.Boots), err
}

// Reboot implements host.Power.
func (p SimulatedPower) Reboot(_ context.Context, why string) error {
	o := SimulatedOS{p.root}
	s, err := o.load()
	if err != nil {
		return err
	}
	s.Boots, s.Booted = s.Boots+1, s.Next
	if err := o.save(s); err != nil {
		return err
	}
	p.say("simulated: reboot (" + strings.TrimSpace(why) + ")")
	return nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
