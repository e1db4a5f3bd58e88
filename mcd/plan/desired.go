package plan

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Desired is the state that a config requires of a machine.
type Desired struct {
	// Paths are the paths that the config manages. An absent entry is a path that must not exist.
	Paths map[string]host.Entry
	// Parents are directories with a specific owner or mode. The daemon creates missing parents, and never changes
	// existing parents.
	Parents map[string]host.Entry
	// Unset marks directories and appended files for which the config sets no mode or owner. Existing modes and owners
	// stay.
	Unset map[string]Unset
	// NoOverwrite marks paths that the config creates only if no other file exists there. The config sets overwrite to
	// false for such a path, or omits it for a directory or link. A new machine with another file at such a path does
	// not boot.
	NoOverwrite map[string]bool
	// Appends are the bytes to append to the original content of a file; none for a file without contents. Paths
	// contains the result for a missing file.
	Appends map[string][]byte
	// Users and Groups are in the order of the config.
	Users  []User
	Groups []Group
	// Keys are the files with the users' SSH keys, by user, as the config spells their paths.
	Keys map[string]KeysFile
	// MergesKeys is true if a program of the machine must run after each change of these files. It writes them again,
	// with a mode of its own.
	MergesKeys bool
	// Skeleton has the paths that a new home directory contains on this machine.
	Skeleton []string
	// Units has the units by name.
	Units map[string]Unit
	// OS is the required OS. An empty Image means that the present image stays.
	OS host.OS
	// Contents has the contents of files and the hashes of passwords, by digest. It has no remote contents.
	Contents map[host.Digest][]byte
	// Problems are settings that no machine, or not this machine, supports.
	Problems []disruption.Refusal
	// Places has the places of paths that links of the machine lead elsewhere, by the spelling of the config. Paths,
	// Parents, Unset, NoOverwrite and Appends then have the places. Empty in the state that Of returns.
	Places map[string]string
	// Replaces are the links of the machine that the state removes or replaces, so that paths below them are new.
	Replaces map[string]bool
}

// At returns the place of a path of the config.
func (w Desired) At(p string) string { return cmp.Or(w.Places[p], p) }

// Spelling returns the path of the config for a place, or for a directory above one.
func (w Desired) Spelling(place string) string {
	for p, at := range w.Places {
		if at == place {
			return p
		}
	}
	if _, own := w.Paths[place]; own {
		return place
	}
	for _, p := range slices.Sorted(maps.Keys(w.Places)) {
		for dir, at := path.Dir(p), path.Dir(w.Places[p]); below(at, place); dir, at = path.Dir(dir), path.Dir(at) {
			if at == place {
				return dir
			}
			if path.Base(dir) != path.Base(at) {
				break // Above it, the directories are others.
			}
		}
	}
	return place
}

// KeysFile is the file with the SSH keys of a user.
type KeysFile struct {
	// Path is the path of the file. Paths has its entry.
	Path string
	// Other is the path that the keys would have on a machine with another sshd.
	Other string
}

// KeysElsewhere returns a state with the keys of a user at their other path.
func (w Desired) KeysElsewhere(user string) Desired {
	w.Paths, w.Parents, w.Keys = maps.Clone(w.Paths), maps.Clone(w.Parents), maps.Clone(w.Keys)
	k := w.Keys[user]
	e := w.Paths[k.Path]
	delete(w.Paths, k.Path)
	w.Keys[user] = KeysFile{Path: k.Other, Other: k.Path}
	w.Paths[k.Other] = e
	// The directory of one of the two is below that of the other.
	w.Parents[path.Dir(k.Other)] = w.Parents[path.Dir(k.Path)]
	return w
}

// Unset marks the attributes that a config does not set.
type Unset struct{ Mode, User, Group bool }

// Unit has the settings of a config for a unit, without its files.
type Unit struct {
	// Enabled is the setting of the config; nil means that the unit keeps its state, and a new unit gets its preset.
	Enabled *bool
	// Masked is true if the config masks the unit.
	Masked bool
	// Unmask is true if the config sets mask: false, which removes a mask that a user created.
	Unmask bool
	// HasContents is true if the config contains the unit file.
	HasContents bool
}

// DesiredOf returns the state that a config requires. It resolves owner names with the accounts of the machine and of
// the config; an unknown name is a problem. It omits parts that only new machines get (disks, filesystems) and parts
// that no machine supports. disruption.NewNodesOnly and disruption.Refuse report the omitted parts.
func DesiredOf(c machineconfig.Config, accounts host.Accounts) Desired {
	in := newReader(c, accounts)
	c, _ = disruption.Running(c, c)
	in.passwd(c.Ignition.Passwd)
	in.storage(c.Ignition.Storage)
	for _, u := range c.Ignition.Systemd.Units {
		in.unit(u)
	}
	in.keysInFiles()
	return in.w
}

func osOf(c machineconfig.Config) host.OS {
	kernel := c.KernelType
	if kernel == "" {
		kernel = "default"
	}
	extensions := slices.Clone(c.Extensions)
	slices.Sort(extensions)
	return host.OS{
		Image:      c.OSImage(),
		Kargs:      host.JoinArgs(machineconfig.SplitKargs(c.KernelArguments)),
		KernelType: kernel,
		Extensions: strings.Join(slices.Compact(extensions), " "),
	}
}

// reader collects the state that a config requires.
type reader struct {
	w        Desired
	accounts host.Accounts
	// uids and gids are the known numbers: those of the machine's accounts, and those of the config.
	uids map[string]host.Owner
	gids map[string]int
	// former are the numbers of users who no longer exist; no other user gets them.
	former map[string]host.Owner
	// keysFiles are the files with SSH keys whose path is known only on the node.
	keysFiles map[string]bool
}

func newReader(c machineconfig.Config, accounts host.Accounts) *reader {
	r := &reader{
		w: Desired{
			Paths: map[string]host.Entry{}, Parents: map[string]host.Entry{},
			Unset: map[string]Unset{}, Appends: map[string][]byte{}, NoOverwrite: map[string]bool{},
			Keys: map[string]KeysFile{}, Units: map[string]Unit{}, Contents: map[host.Digest][]byte{},
			OS: osOf(c), MergesKeys: accounts.MergesKeys,
		},
		accounts: accounts, uids: map[string]host.Owner{}, gids: map[string]int{},
		former: map[string]host.Owner{}, keysFiles: map[string]bool{},
	}
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
		r.w.Skeleton = append(r.w.Skeleton, f.Path)
	}
	return r
}

// addProblem records a setting that this node does not support because of its present state.
func (r *reader) addProblem(check disruption.NodeCheck, field, why string) {
	r.w.Problems = append(r.w.Problems, disruption.OnNode(check, field, why))
}

// addFile adds a regular file to the required paths.
func (r *reader) addFile(at string, contents []byte, e host.Entry) {
	e.Kind, e.Digest = host.File, host.DigestOf(contents)
	r.w.Contents[e.Digest] = contents
	r.addPath(at, e)
}

// addPath adds a path, unless it is invalid. disruption.Invalid reports invalid paths, except those of SSH keys that
// are known only on the node.
func (r *reader) addPath(at string, e host.Entry) {
	at = path.Clean(at)
	_, twice := r.w.Paths[at]
	why := nodepath.Reserved(at)
	if twice {
		why = "more than one part of the config is about this path: keep one"
	}
	switch {
	case why == "":
		r.w.Paths[at] = e
	case r.keysFiles[at]:
		r.addProblem(disruption.CheckAccounts, at, why)
	}
}

// setNoOverwrite records whether a path is created only if no other file exists there.
func (r *reader) setNoOverwrite(at string, does bool) {
	if at = path.Clean(at); does {
		r.w.NoOverwrite[at] = true
	} else {
		delete(r.w.NoOverwrite, at)
	}
}

// keysInFiles finds conflicts between the paths of SSH keys and of files, for keys whose path is known only on the
// node.
func (r *reader) keysInFiles() {
	for _, user := range slices.Sorted(maps.Keys(r.w.Keys)) {
		k := r.w.Keys[user]
		if _, twice := r.w.Paths[k.Other]; twice && r.keysFiles[k.Path] {
			r.addProblem(disruption.CheckAccounts, k.Other, "more than one part of the config is about this path, at "+
				"which other systems have the SSH keys of "+user+": keep one")
		}
	}
	for _, p := range slices.Sorted(maps.Keys(r.w.Paths)) {
		for dir := range disruption.Parents(p) {
			if kind := r.w.Paths[dir].Kind; (r.keysFiles[p] || r.keysFiles[dir]) && kind != host.Absent &&
				kind != host.Dir {
				r.addProblem(disruption.CheckAccounts, p,
					fmt.Sprintf("%s is a %s of the same config, so no path can be below it: remove one of them", dir,
						kind))
			}
		}
	}
}

func (r *reader) storage(s ign.Storage) {
	for _, d := range s.Directories {
		e := host.Entry{Kind: host.Dir, Mode: modeOr(d.Mode, 0o755), Owner: r.owner("storage.directories "+d.Path,
			d.Node)}
		// If overwrite is true, a new machine creates the directory anew, so its attributes are known.
		if !isTrue(d.Overwrite) {
			r.w.Unset[path.Clean(d.Path)] = unsetIn(d.Mode, d.Node)
			r.setNoOverwrite(d.Path, true)
		}
		r.addPath(d.Path, e)
	}
	for _, f := range s.Files {
		r.storageFile(f)
	}
	for _, l := range s.Links {
		if l.Target == nil {
			continue
		}
		r.setNoOverwrite(l.Path, !isTrue(l.Overwrite))
		if isTrue(l.Hard) {
			r.addPath(l.Path, host.Entry{Kind: host.Hard, Target: path.Clean(path.Join("/", *l.Target))})
			continue
		}
		r.w.Unset[path.Clean(l.Path)] = unsetIn(nil, l.Node) // On a new machine, the link gets the owner of its target.
		r.addPath(l.Path, host.Entry{Kind: host.Link, Target: *l.Target, Owner: r.owner("storage.links "+l.Path,
			l.Node)})
	}
}

// storageFile reads a file. For a file with contents, the result includes the appended parts. The contents of a remote
// file are in the content store of the host, not in Contents. storageFile omits a
// file whose contents a server resolves, because the contents are not known: the daemon neither writes such a file nor
// compares it. Package secrets puts the contents into a config.
func (r *reader) storageFile(f ign.File) {
	if f.Contents.Source != nil && machineconfig.IsUnresolved(*f.Contents.Source) {
		return
	}
	field := "storage.files " + f.Path
	if remote, is, err := machineconfig.RemoteOf(f.Contents); is && err == nil {
		r.setNoOverwrite(f.Path, f.Overwrite != nil && !*f.Overwrite)
		r.addPath(f.Path, host.Entry{
			Kind: host.File, Digest: host.RemoteDigest(remote.Hash),
			Mode: modeOr(f.Mode, 0o644), Owner: r.owner(field, f.Node),
		})
		return
	}
	contents, err := machineconfig.Contents(f.Contents)
	for i, part := range f.Append {
		more, partErr := machineconfig.Contents(part)
		if partErr != nil && err == nil {
			field, err = fmt.Sprintf("%s append %d", field, i+1), partErr
		}
		contents = slices.Concat(contents, more)
	}
	if err != nil {
		r.w.Problems = append(r.w.Problems, disruption.Unreadable(fmt.Errorf("%s: %w", field, err))...)
		return
	}
	r.setNoOverwrite(f.Path, f.Overwrite != nil && !*f.Overwrite)
	if f.Contents.Source == nil {
		r.w.Unset[path.Clean(f.Path)] = unsetIn(f.Mode, f.Node)
		r.w.Appends[path.Clean(f.Path)] = contents
	}
	r.addFile(f.Path, contents, host.Entry{Mode: modeOr(f.Mode, 0o644), Owner: r.owner(field, f.Node)})
}

// Fill returns the attributes that are marked as unset from the first entry, and the other attributes from the second
// entry.
func (o Unset) Fill(from, otherwise host.Entry) (mode uint32, owner host.Owner) {
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

func unsetIn(mode *int, n ign.Node) Unset {
	said := func(id *int, name *string) bool { return id != nil || name != nil && *name != "" }
	return Unset{Mode: mode == nil, User: !said(n.User.ID, n.User.Name), Group: !said(n.Group.ID, n.Group.Name)}
}

func isTrue(b *bool) bool { return b != nil && *b }

func modeOr(mode *int, otherwise uint32) uint32 {
	if mode == nil {
		return otherwise
	}
	return uint32(*mode) & 0o7777 //nolint:gosec // a mode fits
}

// owner returns the user and group of a node of the file system: by number, else by name, else root.
func (r *reader) owner(field string, n ign.Node) host.Owner {
	var o host.Owner
	switch {
	case n.User.ID != nil:
		o.UID = *n.User.ID
	case n.User.Name != nil && *n.User.Name != "":
		u, ok := r.uids[*n.User.Name]
		if !ok && *n.User.Name != "root" && !r.accounts.Unprivileged {
			r.addProblem(disruption.CheckAccounts, field,
				fmt.Sprintf("user %q does not exist on this node or in this config: add it to passwd, or give a "+
					"numeric id", *n.User.Name))
		}
		o.UID = u.UID
	}
	switch {
	case n.Group.ID != nil:
		o.GID = *n.Group.ID
	case n.Group.Name != nil && *n.Group.Name != "":
		g, ok := r.gids[*n.Group.Name]
		if !ok && *n.Group.Name != "root" && !r.accounts.Unprivileged {
			r.addProblem(disruption.CheckAccounts, field,
				fmt.Sprintf("group %q does not exist on this node or in this config: add it to passwd, or give a "+
					"numeric id", *n.Group.Name))
		}
		o.GID = g
	}
	if r.accounts.Unprivileged {
		return host.Owner{}
	}
	return o
}

// UnitPath is the path of a unit's file or mask.
func UnitPath(name string) string { return host.UnitDir + "/" + name }

// DropinPath is the path of a drop-in of a unit.
func DropinPath(unit, dropin string) string { return host.UnitDir + "/" + unit + ".d/" + dropin }

// unit reads one unit: its file or mask, its drop-ins, and whether it is enabled.
func (r *reader) unit(u ign.Unit) {
	want := Unit{Enabled: u.Enabled, Masked: u.Mask != nil && *u.Mask, Unmask: u.Mask != nil && !*u.Mask}
	hasContents := u.Contents != nil && *u.Contents != ""
	switch {
	case want.Masked:
		r.addPath(UnitPath(u.Name), host.Entry{Kind: host.Link, Target: "/dev/null"})
	case hasContents:
		want.HasContents = true
		r.addFile(UnitPath(u.Name), []byte(*u.Contents), host.Entry{Mode: 0o644})
	}
	for _, d := range u.Dropins {
		if d.Contents != nil { // Even an empty drop-in counts, because it hides the vendor's drop-in.
			r.addFile(DropinPath(u.Name, d.Name), []byte(*d.Contents), host.Entry{Mode: 0o644})
		}
	}
	r.w.Units[u.Name] = want
}
