package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Observe reads the part of the machine in a scope.
func Observe(ctx context.Context, h host.Host, scope plan.Scope) (host.State, error) {
	accounts, err := Accounts(ctx, h)
	if err != nil {
		return host.State{}, err
	}
	o := observation{host: h, scope: scope, State: host.State{Accounts: accounts}.Clone()}
	o.Paths = make(map[string]host.Entry, len(scope.Paths))
	for _, observe := range []func(context.Context) error{
		o.observePaths, o.observeHardLinks, o.observeHomes, o.readContents,
		o.observeAccounts, o.observeUnits, o.observeOS,
	} {
		if err := observe(ctx); err != nil {
			return host.State{}, err
		}
	}
	return o.State, nil
}

// observation is what was read of a machine so far.
type observation struct {
	host  host.Host
	scope plan.Scope
	host.State
}

// observePaths reads the entries at the paths. A directory comes before the paths in it.
func (o *observation) observePaths(context.Context) (err error) {
	for _, p := range o.scope.Paths {
		above, seen := o.Paths[path.Dir(p)]
		switch {
		case seen && o.scope.Replaced[path.Dir(p)]:
			o.Paths[p] = host.Entry{}
			continue
		case seen && above.Kind == host.Unsafe:
			o.Paths[p], o.Unsafe[p] = above, o.Unsafe[path.Dir(p)]
			continue
		case seen && !slices.Contains([]host.Kind{host.Dir, host.Link}, above.Kind):
			// A path below this one does not exist, because only directories, and links to directories, have entries.
			o.Paths[p] = host.Entry{}
			continue
		}
		if o.Paths[p], err = o.host.Files.Stat(p); err != nil && !o.recordUnsafe(p, err) {
			return fmt.Errorf("reading %s: %w", p, err)
		}
	}
	return nil
}

// observeHardLinks finds the paths that are hard links to one of their targets. All names of a file are alike, so what
// the config in force says decides which of them is the file: the next config may say the opposite.
func (o *observation) observeHardLinks(context.Context) error {
	for _, l := range o.scope.HardLinks {
		if o.Paths[l.Target].Kind == host.Hard {
			continue
		}
		if same, err := o.sameFile(l.Path, l.Target); err != nil && !o.recordUnsafe(l.Path, err) {
			return fmt.Errorf("reading %s: %w", l.Path, err)
		} else if same {
			o.Paths[l.Path] = host.Entry{Kind: host.Hard, Target: l.Target}
		}
	}
	return nil
}

// recordUnsafe records why the daemon does not open a path. It returns false for an error about something else.
func (o *observation) recordUnsafe(p string, err error) bool {
	var unsafe *host.UnsafePathError
	if !errors.As(err, &unsafe) {
		return false
	}
	o.Paths[p], o.Unsafe[p] = host.Entry{Kind: host.Unsafe}, unsafe.Reason()
	return true
}

// observeHomes reads the home directories that are links: the owner of the link's target gets the SSH keys.
func (o *observation) observeHomes(context.Context) (err error) {
	for _, p := range o.scope.Homes {
		for range host.MaxLinks {
			if o.Paths[p].Kind != host.Link {
				break
			}
			p = host.LinkTarget(p, o.Paths[p].Target)
			if o.Paths[p], err = o.host.Files.Stat(p); err != nil && !o.recordUnsafe(p, err) {
				return fmt.Errorf("reading %s: %w", p, err)
			}
		}
	}
	return nil
}

func (o *observation) sameFile(a, b string) (bool, error) {
	if o.host.Same == nil {
		return false, nil
	}
	return o.host.Same(a, b)
}

// readContents adds the contents of files to the state, under the digest that was observed.
func (o *observation) readContents(context.Context) error {
	for _, p := range o.scope.Read {
		if o.Paths[p].Kind != host.File {
			continue
		}
		contents, err := o.host.Files.Read(p)
		if err != nil && o.recordUnsafe(p, err) {
			continue
		}
		if err == nil && host.DigestOf(contents) != o.Paths[p].Digest {
			err = errors.New("it changed during the observation")
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", p, err)
		}
		o.Contents[o.Paths[p].Digest] = contents
	}
	return nil
}

// observeAccounts reads users and groups. It omits users in the scope from the group members, because each of these
// users has a list of its groups.
func (o *observation) observeAccounts(ctx context.Context) error {
	for _, name := range o.scope.Users {
		u, password, err := o.host.Passwd.User(ctx, name)
		if err != nil {
			return fmt.Errorf("reading user %s: %w", name, err)
		}
		o.Users[name] = u
		if u.There {
			o.Contents[u.Password] = password
		}
	}
	for _, name := range o.scope.Groups {
		g, err := o.host.Passwd.Group(ctx, name)
		if err != nil {
			return fmt.Errorf("reading group %s: %w", name, err)
		}
		g.Members = host.JoinNames(slices.DeleteFunc(host.Names(g.Members), func(m string) bool {
			return slices.Contains(o.scope.Users, m)
		}))
		o.Groups[name] = g
	}
	return nil
}

// observeUnits reads units, the units that they name with Also=, which systemd enables and disables with them, and
// those of which they are other names.
func (o *observation) observeUnits(ctx context.Context) error {
	for names := slices.Clone(o.scope.Units); len(names) > 0; {
		name := names[0]
		names = names[1:]
		if _, known := o.Units[name]; known {
			continue
		}
		u, err := o.host.Units.Status(ctx, name)
		if err != nil {
			return fmt.Errorf("reading unit %s: %w", name, err)
		}
		o.Units[name] = u
		for _, file := range host.FileNames(name) {
			at := plan.UnitPath(file)
			if _, known := o.Paths[at]; !known {
				if o.Paths[at], err = o.host.Files.Stat(at); err != nil && !o.recordUnsafe(at, err) {
					return fmt.Errorf("reading %s: %w", at, err)
				}
			}
		}
		names = slices.Concat(names, host.AlsoOf(u.Install), host.AlsoOf(u.Vendor))
		if u.AliasOf != "" {
			names = append(names, u.AliasOf)
		}
	}
	return nil
}

// observeOS reads the OS that the next boot starts.
func (o *observation) observeOS(ctx context.Context) error {
	os, err := o.host.OS.Status(ctx)
	if err != nil {
		return fmt.Errorf("reading the state of the OS: %w", err)
	}
	o.OS, o.Support = os.Next, os.Support
	o.OS.Kargs = o.scope.Managed(o.OS.Kargs)
	if o.OS.KernelType == "" {
		o.OS.KernelType = "default"
	}
	return nil
}

// Accounts reads the machine's users and groups, and how it creates new users and groups. A machine without the account
// files has no accounts.
func Accounts(ctx context.Context, h host.Host) (host.Accounts, error) {
	var f plan.AccountFiles
	for _, part := range []struct {
		at   string
		into *[]byte
	}{
		{host.PasswdPath, &f.Passwd},
		{host.GroupPath, &f.Group},
		{"/usr/lib/passwd", &f.ImagePasswd},
		{"/usr/lib/group", &f.ImageGroup},
		{"/etc/login.defs", &f.LoginDefs},
		{"/etc/default/useradd", &f.UserAdd},
		{host.AccountsPath, &f.Records},
	} {
		contents, err := h.Files.Read(part.at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return host.Accounts{}, fmt.Errorf("reading accounts: %w", err)
		}
		*part.into = contents
	}
	a := plan.ParseAccounts(f)
	a.Unprivileged = h.Unprivileged
	var err error
	if a.KeysFile, a.MergesKeys, err = keysFile(h.Files); err != nil {
		return host.Accounts{}, err
	}
	if a.Skeleton, err = h.Passwd.Skeleton(ctx); err != nil {
		return host.Accounts{}, fmt.Errorf("reading the skeleton of home directories: %w", err)
	}
	return a, nil
}

// keysFile returns where the machine has SSH keys, by its row in the table of distributions, and whether a program of
// the machine merges them into the file that sshd reads.
func keysFile(files host.Files) (file string, merges bool, failed error) {
	release := Release(files)
	system, _ := distribution.SystemOf(release["ID"], release["VARIANT_ID"])
	file = system.KeysFileOf(func(program string) bool {
		is, err := files.Stat(program)
		if err != nil {
			failed = fmt.Errorf("looking for the program that reads SSH keys: %w", err)
		}
		return is.Kind == host.File || is.Kind == host.Link
	})
	return file, system.MergesKeys && file == distribution.KeysFragment, failed
}

// Release reads the fields of os-release(5); none without the file.
func Release(files host.Files) map[string]string {
	fields := map[string]string{}
	for _, at := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if is, err := files.Stat(at); err == nil && is.Kind == host.Link {
			at = host.LinkTarget(at, is.Target)
		}
		text, err := files.Read(at)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			fields[key] = strings.Trim(value, `"'`)
		}
		break
	}
	return fields
}

// Place returns a transition with every path at its place on the machine, as Transition.Place does.
func Place(h host.Host, w plan.Transition) (plan.Transition, error) {
	w, err := w.Place(h.Files.Stat)
	if err != nil {
		return w, fmt.Errorf("finding the places of paths: %w", err)
	}
	return w, nil
}

// LoadRecord reads the config in force from disk; nil for none.
func LoadRecord(files host.Files) (*mcfgv1.MachineConfig, error) {
	text, err := files.Read(host.RecordPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	return plan.ParseRecord(text)
}

// Blockers returns what would stop the plan on the machine as it is now. The parameter contents has what its steps
// write and the machine does not have.
func Blockers(h host.Host, p plan.Plan, contents map[host.Digest][]byte) []host.Blocker {
	found, also := h.Units.Blockers(p.Steps, p.Install)
	if os, ok := h.OS.(host.BootWriter); ok {
		also = append(also, os.BootFiles(p.Steps)...)
	}
	found = append(found, h.Disk.Blockers(slices.Concat(p.Steps, also), func(d host.Digest) int64 {
		return sizeOf(h, contents, d)
	})...)
	if s := bootSpace(h, p.Steps); s.Free < s.Least {
		found = append(found, host.Blocker{Kind: host.Full, Path: s.At, At: s.At, Need: s.Least, Free: s.Free})
	}
	return found
}

// UnreadKeys returns which SSH keys that a plan writes would log nobody in, because sshd has other settings on this
// machine, or gets them from the config. A new machine with the config would not accept them either, so this is no
// reason to refuse it. The result is empty if sshd does not say its settings.
func UnreadKeys(ctx context.Context, h host.Host, p plan.Plan, w plan.Transition) (notes []string) {
	users, changes := p.WrittenKeys(w.New)
	for _, user := range users {
		if h.SSHSettings == nil {
			return nil
		}
		is, err := h.SSHSettings(ctx, user)
		if err != nil || changes && w.KeysFile == "" {
			continue // sshd has no host keys, for example, or refuses its settings.
		}
		if changes {
			is.KeysFile = w.KeysFile
		}
		account, _, _ := h.Passwd.User(ctx, user) // The number is that of a user who exists.
		if note := w.New.UnreadKeys(user, account.UID, is); note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

// bootSpace returns the space for what the steps stage.
func bootSpace(h host.Host, steps []host.Step) host.BootSpace {
	if os, ok := h.OS.(host.BootChecker); ok {
		return os.BootSpace(steps)
	}
	return host.BootSpace{}
}

// BootShortage says that the next boot may lead into the OS that runs, because there is probably too little space for
// another kernel; "" if nothing says so.
func BootShortage(h host.Host, steps []host.Step) string { return bootSpace(h, steps).Shortage() }

// sizeOf returns the bytes of contents, or 0 if they are neither downloaded nor in the map.
func sizeOf(h host.Host, contents map[host.Digest][]byte, d host.Digest) int64 {
	if text, ok := contents[d]; ok || h.Contents == nil {
		return int64(len(text))
	}
	bytes, _, _ := h.Contents.Size(d) // The step that writes them reports the error.
	return bytes
}
