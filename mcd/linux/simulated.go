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
	"time"

	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
	"github.com/bunsen-os/bunsen/mcd/linux/systemd"
)

// OpenSimulated opens a directory as a simulated host. In an empty directory, OpenSimulated creates the files that the
// daemon needs: accounts, a preset that disables unnamed units, an OS. Files, units and enablement are real. Reloads,
// restarts and reboots are not real: for each, OpenSimulated calls say with one line. The caller closes the Root.
func OpenSimulated(dir string, say func(line string)) (host.Host, *files.Root, error) {
	root, err := files.Open(dir)
	if err != nil {
		return host.Host{}, nil, err
	}
	if err := createInitialFiles(root); err != nil {
		root.Close() //nolint:errcheck,gosec // the first error is the one to tell
		return host.Host{}, nil, fmt.Errorf("furnishing simulated host %s: %w", dir, err)
	}
	units := systemd.SimulatedUnits{Enablement: systemd.NewEnablement(root), Say: say}
	return host.Host{
		Files: root, Disk: root, Units: units, Passwd: NewAccountFiles(root), OS: SimulatedOS{root},
		Trust: sayTrust("simulated", say), Power: SimulatedPower{root, say},
		Journal: root.Journal(), Store: root.Store(), Contents: root.ContentStore(), Same: root.Same,
		Unprivileged: !root.IsPrivileged(),
	}, root, nil
}

// OpenOffline opens the root of a machine that is not running, such as an image or a test directory. OpenOffline adds
// nothing. Files and enablement are real. The host changes users and groups with the tools inside the root, or with
// tools outside and --root. For each reload, restart and reboot, the host calls say with one line, because the next
// start of the machine has the same effect. The OS cannot be changed. The caller closes the Root.
func OpenOffline(dir string, say func(line string)) (host.Host, *files.Root, error) {
	root, err := files.Open(dir)
	if err != nil {
		return host.Host{}, nil, err
	}
	h := host.Host{
		Files: root, Disk: root, Units: systemd.SimulatedUnits{Enablement: systemd.NewEnablement(root), Say: say},
		Passwd: NewShadowUtils(root, dir),
		OS:     offlineOS{}, Trust: sayTrust("at rest", say), Power: offlinePower{say}, Journal: root.Journal(),
		Store: root.Store(), Contents: root.ContentStore(), Same: root.Same, Unprivileged: !root.IsPrivileged(),
	}
	if h.Unprivileged {
		h.Passwd = NewAccountFiles(root)
	}
	return h, root, nil
}

// offlineOS is the OS of a machine that is not running.
type offlineOS struct{}

// Status implements host.OperatingSystem.
func (offlineOS) Status(context.Context) (host.OSStatus, error) {
	return host.OSStatus{Support: host.Support{Why: "it does not run, and only a running machine can stage an OS"}}, nil
}

// Stage implements host.OperatingSystem.
func (offlineOS) Stage(_ context.Context, step host.Step) error {
	return fmt.Errorf("%s: %w", step.Verb, host.ErrUnsupported)
}

// offlinePower is the host.Power of a machine that is not running.
type offlinePower struct{ say func(line string) }

// BootID implements host.Power.
func (offlinePower) BootID() (string, error) { return "at-rest", nil }

// GoingDown implements host.Power.
func (offlinePower) GoingDown(context.Context) (bool, error) { return false, nil }

// Reboot implements host.Power.
func (p offlinePower) Reboot(_ context.Context, why string) error {
	p.say("at rest: reboot (" + strings.TrimSpace(why) + ")")
	return nil
}

// initialFiles are the files that OpenSimulated creates.
var initialFiles = map[string]string{
	"/etc/passwd":     "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000:CoreOS Admin:/home/core:/bin/bash\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
	"/etc/group":      "root:x:0:\nwheel:x:10:core\nusers:x:100:\ncore:x:1000:\nnobody:x:65534:\n",
	"/etc/shadow":     "root:*::0:99999:7:::\ncore:*::0:99999:7:::\nnobody:*::0:99999:7:::\n",
	"/etc/os-release": "ID=bunsen-simulated\nPRETTY_NAME=\"Bunsen simulated host\"\n",
	"/usr/lib/systemd/system-preset/99-default-disable.preset": "disable *\n",
}

func createInitialFiles(root *files.Root) error {
	home := host.Entry{Kind: host.Dir, Mode: 0o700, Owner: host.Owner{UID: 1000, GID: 1000}}
	for _, dir := range []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/var/lib", "/run", "/home"} {
		if err := root.MkdirAll(dir); err != nil {
			return err
		}
	}
	if is, err := root.Stat("/home/core"); err != nil || is.Kind == host.Absent {
		if err := root.Mkdir("/home/core", home); err != nil {
			return err
		}
	}
	for _, p := range slices.Sorted(maps.Keys(initialFiles)) {
		if is, err := root.Stat(p); err != nil || is.Kind != host.Absent {
			continue
		}
		if err := root.MkdirAll(path.Dir(p)); err != nil {
			return err
		}
		mode := uint32(0o644)
		if p == host.ShadowPath {
			mode = 0o600
		}
		if err := root.Write(p, host.Entry{Mode: mode}, []byte(initialFiles[p])); err != nil {
			return err
		}
	}
	if is, err := root.Stat(files.SimulatedOSPath); err != nil || is.Kind != host.Absent {
		return err
	}
	first := host.OS{Kargs: "ro root=simulated", KernelType: "default"}
	return (SimulatedOS{root}).save(simulatedOS{Booted: first, Next: first, Boots: 1})
}

// SimulatedOS stores the OS in a file. A simulated reboot activates the staged OS.
type SimulatedOS struct{ root *files.Root }

// simulatedOS is the content of the file at SimulatedOSPath.
type simulatedOS struct {
	// Booted is the running OS. Next is the staged OS.
	Booted, Next host.OS
	// Boots counts the boots, and identifies a boot.
	Boots int
}

func (o SimulatedOS) load() (s simulatedOS, err error) {
	text, err := o.root.Read(files.SimulatedOSPath)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w", files.SimulatedOSPath, err)
	}
	return s, nil
}

func (o SimulatedOS) save(s simulatedOS) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return o.root.Write(files.SimulatedOSPath, host.Entry{Mode: 0o644}, append(text, '\n'))
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

// SimulatedPower simulates reboots: it counts them, activates the staged OS, and calls say. A file in the directory of
// logind's locks refuses them.
type SimulatedPower struct {
	root *files.Root
	// say is called for each reboot.
	say func(line string)
}

// BootID implements host.Power.
func (p SimulatedPower) BootID() (string, error) {
	s, err := (SimulatedOS{p.root}).load()
	return "simulated-" + strconv.Itoa(s.Boots), err
}

// GoingDown implements host.Power. A simulated reboot takes no time.
func (SimulatedPower) GoingDown(context.Context) (bool, error) { return false, nil }

// inhibitors is the directory in which logind stores the locks that inhibit a shutdown.
const inhibitors = "/run/systemd/inhibit"

// blocked returns an error about a lock that blocks a reboot; nil if there is none.
func (p SimulatedPower) blocked() error {
	names, err := p.root.List(inhibitors)
	if err != nil {
		return fmt.Errorf("asking who blocks it: %w", err)
	}
	for _, name := range names {
		text, err := p.root.Read(path.Join(inhibitors, name))
		if err != nil {
			return fmt.Errorf("asking who blocks it: %w", err)
		}
		is := map[string]string{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			is[key] = value
		}
		if is["MODE"] == "block" && slices.Contains(strings.Split(is["WHAT"], ":"), "shutdown") {
			return fmt.Errorf("it is blocked by %s (%q); it is asked for again later, and goes ahead when that is "+
				"gone: see systemd-inhibit --list", is["WHO"], is["WHY"])
		}
	}
	return nil
}

// Reboot implements host.Power. Like logind, it refuses a reboot that a lock blocks.
func (p SimulatedPower) Reboot(_ context.Context, why string) error {
	if err := p.blocked(); err != nil {
		return err
	}
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

// trustLimit is the limit for the distribution's program. It starts a process for each authority, which takes minutes
// on a machine that is slow or busy.
const trustLimit = 10 * time.Minute

// trustStore is the host.TrustStore of a real machine: its own program.
type trustStore struct {
	root *files.Root
	dir  string
}

// Update implements host.TrustStore. It runs only programs of package distribution.
func (s trustStore) Update(ctx context.Context, program string) error {
	if !slices.ContainsFunc(distribution.Systems(), func(o distribution.OS) bool {
		return o.TrustStore.Program == program
	}) {
		return fmt.Errorf("%s is not the program of a trust store: %w", program, host.ErrUnsupported)
	}
	found := machine.FindProgram(s.root, s.dir, program)
	if found.Path == "" {
		return fmt.Errorf("the machine does not have %s: %w", program, host.ErrUnsupported)
	}
	_, err := found.Run(ctx, trustLimit)
	return err
}

// sayTrust returns a host.TrustStore of a machine that does not run: it calls say with one line.
func sayTrust(prefix string, say func(line string)) host.TrustStore {
	return saidTrust(func(program string) { say(prefix + ": " + program) })
}

type saidTrust func(program string)

// Update implements host.TrustStore.
func (s saidTrust) Update(_ context.Context, program string) error {
	s(program)
	return nil
}
