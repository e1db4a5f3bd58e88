package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Machine is a machine in memory. The data of a Machine survives the crash of a process, like data on a disk.
type Machine struct {
	// Broken are the units that fail to reload and restart, and the programs that fail.
	Broken map[string]bool
	// Blockers are what stops changes of paths, by path.
	Blockers map[string]host.BlockerKind
	// If BootsOld is true, the next reboot boots the old OS, like a machine whose new OS does not boot.
	BootsOld bool
	// If SlowReboots is true, a reboot that was accepted happens only when the test calls GoDown.
	SlowReboots bool
	// Log has one line for each event that is not a change on disk.
	Log []string

	disk    *platter
	os      host.OSStatus
	down    bool // down is true from the acceptance of a slow reboot until GoDown.
	boots   int
	booted  string
	journal []byte
	store   map[host.Digest][]byte
}

// node is the file, directory or link at a path.
type node struct {
	entry    host.Entry
	contents []byte
}

// NewMachine returns a machine with the users root and core, a vendor's unit, presets that disable unnamed units, and
// an OS that can be changed.
func NewMachine() *Machine {
	m := &Machine{
		Broken: map[string]bool{}, Blockers: map[string]host.BlockerKind{}, disk: newPlatter(),
		store: map[host.Digest][]byte{},
	}
	m.os.Booted = host.OS{Image: "registry.example/os:1", Kargs: "root=/dev/sda1 ro", KernelType: "default"}
	m.os.Next = m.os.Booted
	m.os.Support = host.Support{Image: true, Kargs: true, KernelType: true, Extensions: true}
	for _, dir := range []string{
		"/", "/etc", "/etc/skel", "/etc/systemd", "/etc/systemd/system", "/usr", "/usr/lib",
		"/usr/lib/systemd", "/usr/lib/systemd/system", "/usr/lib/systemd/system-preset", "/var", "/var/lib", "/run",
		"/home",
	} {
		m.disk.nodes[dir] = node{entry: host.Entry{Kind: host.Dir, Mode: 0o755}}
	}
	m.disk.nodes["/home/core"] = node{entry: host.Entry{
		Kind: host.Dir, Mode: 0o700,
		Owner: host.Owner{UID: 1000, GID: 1000},
	}}
	for p, text := range Base {
		m.disk.nodes[p] = node{
			entry:    host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte(text))},
			contents: []byte(text),
		}
	}
	m.disk.settle()
	m.booted = m.Tree()
	return m
}

// Base are the initial files of a machine.
var Base = map[string]string{
	"/etc/passwd":                            "root:x:0:0::/root:/bin/bash\ncore:x:1000:1000::/home/core:/bin/bash\nguest:x:1200:1200:A guest:/home/guest:/bin/sh\n",
	"/etc/group":                             "root:x:0:\nwheel:x:10:guest\nusers:x:100:\ncore:x:1000:\nguest:x:1200:\n",
	"/etc/shadow":                            "root:*::0:99999:7:::\ncore:*::0:99999:7:::\nguest:$6$guest::0:99999:7:::\n",
	"/etc/skel/.bashrc":                      "# what every user begins with\n",
	"/usr/lib/systemd/system/vendor.service": "[Service]\nExecStart=/usr/bin/vendor\n[Install]\nWantedBy=multi-user.target\n",
	"/usr/lib/systemd/system-preset/99-default-disable.preset": "disable *\n",
	"/usr/lib/systemd/system-preset/50-vendor.preset":          "enable preset.service\n",
	"/etc/chrony.conf": "pool example.org\n",
	"/etc/zz.conf":     "came with the machine\n",
}

// Host returns the machine as the host of one process. A flush covers only the changes of that process.
func (m *Machine) Host() host.Host {
	p := &process{Machine: m, changed: map[string]bool{}}
	return host.Host{
		Files: files{p}, Disk: p, Units: units{p}, Passwd: passwd{p}, OS: system{m}, Trust: trustStore{m},
		Power: power{m}, Journal: journal{m}, Store: store{m}, Contents: contents{p}, Same: files{p}.same,
	}
}

// Withdraw makes the OS unchangeable, as on a plain Linux host.
func (m *Machine) Withdraw(why string) { m.os.Support = host.Support{Why: why} }

// FixKargs gives the machine a boot loader that can only append plain kernel arguments to the machine's own arguments.
// FixKargs also adds arguments to the machine's own arguments.
func (m *Machine) FixKargs(more string) {
	m.os.Booted.Kargs = strings.TrimSpace(m.os.Booted.Kargs + " " + more)
	m.os.Next.Kargs = m.os.Booted.Kargs
	m.os.Support.OwnKargs, m.os.Support.PlainKargs = m.os.Booted.Kargs, true
}

// Put writes a file as a user would, without the daemon's interfaces. Put creates missing parents.
func (m *Machine) Put(p, text string) {
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		if _, ok := m.disk.nodes[dir]; !ok {
			m.disk.nodes[dir] = node{entry: host.Entry{Kind: host.Dir, Mode: 0o755}}
		}
	}
	m.disk.nodes[p] = node{
		entry:    host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf([]byte(text))},
		contents: []byte(text),
	}
	m.disk.settle()
}

// String returns the whole machine as canonical text: its Tree, the OS, and the daemon's files.
func (m *Machine) String() string {
	return fmt.Sprintf("%snext %+v\njournal %t, %d kept\n", m.Tree(), m.os.Next, m.journal != nil, len(m.store))
}

// Tree returns the machine's disk as canonical text: paths with contents in Go syntax, and enabled units.
func (m *Machine) Tree() string {
	var b strings.Builder
	for _, p := range sortedPaths(m.disk.nodes) {
		n := m.disk.nodes[p]
		fmt.Fprintf(&b, "%s %s", p, n.entry)
		if n.entry.Kind == host.File {
			fmt.Fprintf(&b, " %q", n.contents)
		}
		b.WriteString("\n")
	}
	for _, u := range slices.Sorted(maps.Keys(m.disk.enabled)) {
		fmt.Fprintf(&b, "enabled %s\n", u)
	}
	return b.String()
}

func sortedPaths(nodes map[string]node) []string { return slices.Sorted(maps.Keys(nodes)) }

func (m *Machine) logf(format string, args ...any) {
	m.Log = append(m.Log, fmt.Sprintf(format, args...))
}

// resolve follows the links in the directories of a path, within the machine.
func (m *Machine) resolve(p string) (string, error) {
	if !path.IsAbs(p) || path.Clean(p) != p {
		return "", fmt.Errorf("%q is not an absolute, clean path", p)
	}
	done, todo := "/", strings.Split(strings.TrimPrefix(p, "/"), "/")
	for hops := 0; len(todo) > 1; {
		next := path.Join(done, todo[0])
		todo = todo[1:]
		n, ok := m.disk.nodes[next]
		switch {
		case !ok:
			return "", fmt.Errorf("%s: %w", next, fs.ErrNotExist)
		case n.entry.Kind == host.Link:
			if hops++; hops > 40 {
				return "", fmt.Errorf("%s: links lead to each other in a circle: %w", p, fs.ErrNotExist)
			}
			to := n.entry.Target
			if !path.IsAbs(to) {
				to = path.Join(done, to)
			}
			done, todo = "/", append(strings.Split(strings.TrimPrefix(path.Clean(to), "/"), "/"), todo...)
		case n.entry.Kind != host.Dir:
			return "", fmt.Errorf("%s is no directory: %w", next, fs.ErrNotExist)
		default:
			done = next
		}
	}
	return path.Join(done, todo[0]), nil
}

// The simulated journal and store use JSON, so that they lose the same data as the real journal and store.
type journal struct{ m *Machine }

func (j journal) Load() (*host.Record, error) {
	if j.m.journal == nil {
		return nil, nil
	}
	var rec host.Record
	if err := json.Unmarshal(j.m.journal, &rec); err != nil {
		return nil, err
	}
	return &rec, nil
}

func (j journal) Save(rec host.Record) (err error) {
	j.m.journal, err = json.Marshal(rec)
	return err
}

func (j journal) Clear() error {
	j.m.journal = nil
	return nil
}

type store struct{ m *Machine }

func (s store) Keep(old []host.Old) error {
	kept := map[host.Digest][]byte{}
	for _, o := range old {
		contents := o.Contents
		if o.Path != "" {
			var err error
			if contents, err = (files{&process{Machine: s.m}}).Read(o.Path); err != nil {
				return err
			}
		}
		if host.DigestOf(contents) != o.Digest {
			return fmt.Errorf("%s has changed since the observation", o.Path)
		}
		if !o.Downloaded {
			kept[o.Digest] = slices.Clone(contents)
		}
	}
	s.m.store = kept
	return nil
}

func (s store) Get(d host.Digest) ([]byte, error) {
	contents, ok := s.m.store[d]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return contents, nil
}

func (s store) Sweep() error {
	clear(s.m.store)
	return nil
}

// contents is a host.ContentStore with the files below host.ContentDir.
type contents struct{ m *process }

// Size implements host.ContentStore.
func (c contents) Size(d host.Digest) (bytes int64, has bool, _ error) {
	n := c.m.disk.nodes[path.Join(host.ContentDir, string(d))]
	return int64(len(n.contents)), n.entry.Kind == host.File, nil
}

// Write implements host.ContentStore.
func (c contents) Write(p string, want host.Entry) error {
	n := c.m.disk.nodes[path.Join(host.ContentDir, string(want.Digest))]
	if n.entry.Digest != want.Digest {
		return fmt.Errorf("downloaded contents %s are damaged", want.Digest.Short())
	}
	return files(c).Write(p, want, n.contents)
}

type trustStore struct{ m *Machine }

// Update implements host.TrustStore. It fails for a program of Broken.
func (s trustStore) Update(_ context.Context, program string) error {
	s.m.logf("run %s", program)
	if s.m.Broken[program] {
		return fmt.Errorf("%s: exit status 1", program)
	}
	return nil
}

type power struct{ m *Machine }

func (p power) BootID() (string, error) { return fmt.Sprintf("boot-%d", p.m.boots), nil }

func (p power) GoingDown(context.Context) (bool, error) { return p.m.down, nil }

func (p power) Reboot(_ context.Context, why string) error {
	p.m.logf("reboot: %s", why)
	if p.m.down = p.m.SlowReboots; !p.m.down {
		p.m.GoDown()
	}
	return nil
}

// GoDown simulates the end of a shutdown and the boot after it.
func (m *Machine) GoDown() {
	m.down = false
	m.disk.settle() // A machine that shuts down writes all its data.
	m.boot(!m.BootsOld)
}

// boot simulates a boot into the staged OS or, without one, into the last OS.
func (m *Machine) boot(staged bool) {
	m.boots++
	if staged {
		m.os.Booted = m.os.Next
	}
	m.os.Next = m.os.Booted
	m.booted = m.Tree()
}

// Booted returns the Tree at the last boot, with which the services run, and the number of boots of the machine.
func (m *Machine) Booted() (tree string, boots int) { return m.booted, m.boots }

// PowerCut simulates a power cut and a boot. PowerCut keeps only some of the changes since the last Flush. After a
// power cut, some files are empty, and the staged OS may be lost.
func (m *Machine) PowerCut(r *rand.Rand) {
	m.logf("power cut")
	m.down = false
	m.disk.lose(r)
	m.boot(!m.BootsOld && r.IntN(2) == 0)
}
