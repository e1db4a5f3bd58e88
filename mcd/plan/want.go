package plan

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

// Wanted is what a config asks of a machine.
type Wanted struct {
	// Paths that the config manages. An absent entry is a path that it wants gone.
	Paths map[string]host.Entry
	// Parents are directories with an owner or mode of their own that are made where they are missing, and never changed.
	Parents map[string]host.Entry
	// Open marks directories and appended files of whose mode or owner the config says nothing: those that are there stay.
	Open map[string]Open
	// Yields marks paths that the config wants only where nothing else is: overwrite is false, or not said of a directory or
	// link. A new machine that has something else there does not boot.
	Yields map[string]bool
	// Appends are the bytes that come behind what a file has without the config, none for a file without contents; Paths has
	// such a file as it is where there was none.
	Appends map[string][]byte
	// Users and Groups in the order of the config.
	Users  []WantedUser
	Groups []WantedGroup
	// Skeleton are the paths in a new home directory on this machine.
	Skeleton []string
	// Units by name.
	Units map[string]WantedUnit
	// OS part. An empty Image means: whatever is there.
	OS host.OS
	// Contents of files, and hashes of passwords, by digest.
	Contents map[host.Digest][]byte
	// Problems are what cannot be done on any or this machine.
	Problems []policy.Refusal
}

// Open marks what a config leaves open.
type Open struct{ Mode, User, Group bool }

// WantedUnit is what a config says about a unit, beside its files.
type WantedUnit struct {
	// Enabled as the config says; nil leaves it to the machine's preset.
	Enabled *bool
	// Masked by the config.
	Masked bool
	// Unmask: the config says mask: false, which takes a mask away that somebody made.
	Unmask bool
	// HasContents: the config brings the unit's file.
	HasContents bool
}

// Want reads a config, with those that it names inline. Owners' names are resolved with the machine's accounts and those
// that the config makes; a name that is in neither is a problem. What only a new machine gets (disks, filesystems) and what no
// machine can take is left out: policy.NewNodesOnly and policy.Refuse speak about it.
func Want(c machineconfig.Config, accounts host.Accounts) Wanted {
	w := Wanted{
		Paths: map[string]host.Entry{}, Parents: map[string]host.Entry{},
		Open: map[string]Open{}, Appends: map[string][]byte{}, Yields: map[string]bool{},
		Units: map[string]WantedUnit{}, Contents: map[host.Digest][]byte{},
		OS: osOf(c),
	}
	in := newReader(&w, accounts)
	c, _ = policy.Running(c, c)
	accountReader{in}.passwd(c.Ignition.Passwd)
	in.storage(c.Ignition.Storage)
	for _, u := range c.Ignition.Systemd.Units {
		in.unit(u)
	}
	in.keysInFiles()
	return w
}

func osOf(c machineconfig.Config) host.OS {
	kernel := c.KernelType
	if kernel == "" {
		kernel = "default"
	}
	extensions := slices.Clone(c.Extensions)
	slices.Sort(extensions)
	return host.OS{
		Image:      c.OSImageURL,
		Kargs:      host.JoinArgs(machineconfig.SplitKargs(c.KernelArguments)),
		KernelType: kernel,
		Extensions: strings.Join(slices.Compact(extensions), " "),
	}
}

// reader collects what a config wants.
type reader struct {
	w        *Wanted
	accounts host.Accounts
	// uids and gids are what is known so far: the machine's accounts and the config's.
	uids map[string]host.Owner
	gids map[string]int
	// former are the numbers of users who are no more; nobody else gets them.
	former map[string]host.Owner
	// keysFiles are the files of users' keys whose place only the node knows.
	keysFiles map[string]bool
}

func newReader(w *Wanted, accounts host.Accounts) *reader {
	r := &reader{w: w, accounts: accounts, uids: map[string]host.Owner{}, gids: map[string]int{}, former: map[string]host.Owner{}, keysFiles: map[string]bool{}}
	for name, u := range accounts.Left {
		if u.There {
			r.uids[name] = u.Owner()
		} else {
			r.former[name] = u.Owner()
		}
	}
	maps.Copy(r.uids, accounts.Users)
	maps.Copy(r.gids, accounts.LeftGroups)
	maps.Copy(r.gids, accounts.Groups)
	for _, f := range accounts.Skeleton {
		w.Skeleton = append(w.Skeleton, f.Path)
	}
	return r
}

// problem notes what this node cannot do, for what it has.
func (r *reader) problem(check policy.NodeCheck, field, why string) {
	r.w.Problems = append(r.w.Problems, policy.OnNode(check, field, why))
}

// file puts a regular file among the wanted paths.
func (r *reader) file(at string, contents []byte, e host.Entry) {
	e.Kind, e.Digest = host.File, host.DigestOf(contents)
	r.w.Contents[e.Digest] = contents
	r.put(at, e)
}

// put puts something among the wanted paths, unless the path cannot be had: policy.Invalid speaks about that, but for keys
// whose place only the node knows.
func (r *reader) put(at string, e host.Entry) {
	at = path.Clean(at)
	_, twice := r.w.Paths[at]
	why := policy.ReservedPath(at)
	if twice {
		why = "more than one part of the config is about this path: keep one"
	}
	switch {
	case why == "":
		r.w.Paths[at] = e
	case r.keysFiles[at]:
		r.problem(policy.CheckAccounts, at, why)
	}
}

// yields notes whether a path is wanted only where nothing else is.
func (r *reader) yields(at string, does bool) {
	if at = path.Clean(at); does {
		r.w.Yields[at] = true
	} else {
		delete(r.w.Yields, at)
	}
}

// keysInFiles finds keys that are to be where a file is, and the other way round, where only the node knows the place of the keys.
func (r *reader) keysInFiles() {
	for _, p := range slices.Sorted(maps.Keys(r.w.Paths)) {
		for dir := range policy.Parents(p) {
			if kind := r.w.Paths[dir].Kind; (r.keysFiles[p] || r.keysFiles[dir]) && kind != host.Absent && kind != host.Dir {
				r.problem(policy.CheckAccounts, p, fmt.Sprintf("%s is a %s of the same config, so nothing can be in it: take one of them out", dir, kind))
			}
		}
	}
}

func (r *reader) storage(s ign.Storage) {
	for _, d := range s.Directories {
		e := host.Entry{Kind: host.Dir, Mode: modeOr(d.Mode, 0o755), Owner: r.owner("storage.directories "+d.Path, d.Node)}
		if !isTrue(d.Overwrite) { // else a new machine makes it anew
			r.w.Open[path.Clean(d.Path)] = openIn(d.Mode, d.Node)
			r.yields(d.Path, true)
		}
		r.put(d.Path, e)
	}
	for _, f := range s.Files {
		r.storageFile(f)
	}
	for _, l := range s.Links {
		if l.Target == nil {
			continue
		}
		r.yields(l.Path, !isTrue(l.Overwrite))
		if isTrue(l.Hard) {
			r.put(l.Path, host.Entry{Kind: host.Hard, Target: path.Clean(path.Join("/", *l.Target))})
			continue
		}
		r.w.Open[path.Clean(l.Path)] = openIn(nil, l.Node) // a new machine gives it to whoever has what it leads to
		r.put(l.Path, host.Entry{Kind: host.Link, Target: *l.Target, Owner: r.owner("storage.links "+l.Path, l.Node)})
	}
}

// storageFile reads a file. One with contents is known whole, what is appended included.
func (r *reader) storageFile(f ign.File) {
	field := "storage.files " + f.Path
	contents, err := machineconfig.Contents(f.Contents)
	for i, part := range f.Append {
		more, partErr := machineconfig.Contents(part)
		if partErr != nil && err == nil {
			field, err = fmt.Sprintf("%s append %d", field, i+1), partErr
		}
		contents = slices.Concat(contents, more)
	}
	if err != nil {
		r.w.Problems = append(r.w.Problems, policy.Unreadable(fmt.Errorf("%s: %w", field, err))...)
		return
	}
	r.yields(f.Path, f.Overwrite != nil && !*f.Overwrite)
	if f.Contents.Source == nil {
		r.w.Open[path.Clean(f.Path)] = openIn(f.Mode, f.Node)
		r.w.Appends[path.Clean(f.Path)] = contents
	}
	r.file(f.Path, contents, host.Entry{Mode: modeOr(f.Mode, 0o644), Owner: r.owner(field, f.Node)})
}

// keep takes the parts that are open from one entry, and the others from another.
func (o Open) keep(from, otherwise host.Entry) (mode uint32, owner host.Owner) {
	mode, owner = otherwise.Mode, otherwise.Owner
	if o.Mode {
		mode = from.Mode
	}
	if o.User {
		owner.UID = from.Owner.UID
	}
	if o.Group {
		owner.GID = from.Owner.GID
	}
	return mode, owner
}

func openIn(mode *int, n ign.Node) Open {
	said := func(id *int, name *string) bool { return id != nil || name != nil && *name != "" }
	return Open{Mode: mode == nil, User: !said(n.User.ID, n.User.Name), Group: !said(n.Group.ID, n.Group.Name)}
}

func isTrue(b *bool) bool { return b != nil && *b }

func modeOr(mode *int, otherwise uint32) uint32 {
	if mode == nil {
		return otherwise
	}
	return uint32(*mode) & 0o7777 //nolint:gosec // a mode fits
}

// owner resolves a node's user and group: by id, else by name, else root.
func (r *reader) owner(field string, n ign.Node) host.Owner {
	var o host.Owner
	switch {
	case n.User.ID != nil:
		o.UID = *n.User.ID
	case n.User.Name != nil && *n.User.Name != "":
		u, ok := r.uids[*n.User.Name]
		if !ok && *n.User.Name != "root" && !r.accounts.Unprivileged {
			r.problem(policy.CheckAccounts, field, fmt.Sprintf("user %q does not exist on this node or in this config: add it to passwd, or give a numeric id", *n.User.Name))
		}
		o.UID = u.UID
	}
	switch {
	case n.Group.ID != nil:
		o.GID = *n.Group.ID
	case n.Group.Name != nil && *n.Group.Name != "":
		g, ok := r.gids[*n.Group.Name]
		if !ok && *n.Group.Name != "root" && !r.accounts.Unprivileged {
			r.problem(policy.CheckAccounts, field, fmt.Sprintf("group %q does not exist on this node or in this config: add it to passwd, or give a numeric id", *n.Group.Name))
		}
		o.GID = g
	}
	if r.accounts.Unprivileged {
		return host.Owner{}
	}
	return o
}
