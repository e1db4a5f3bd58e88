package linux

import (
	"context"
	"fmt"
	"path"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// skeletonDir has the initial content of new home directories.
const skeletonDir = "/etc/skel"

// AccountFiles reads and changes users and groups directly in the files of a machine that is not running. AccountFiles
// implements host.Passwd for simulated hosts.
type AccountFiles struct{ root *files.Root }

// NewAccountFiles returns the account files of a machine.
func NewAccountFiles(root *files.Root) AccountFiles { return AccountFiles{root} }

// accountFiles are the account files, with the modes that missing files get.
var accountFiles = []struct {
	at   string
	mode uint32
	text func(*host.Database) *string
}{
	{host.PasswdPath, 0o644, func(d *host.Database) *string { return &d.Passwd }},
	{host.GroupPath, 0o644, func(d *host.Database) *string { return &d.Group }},
	{host.ShadowPath, 0o600, func(d *host.Database) *string { return &d.Shadow }},
}

func (a AccountFiles) load() (d host.Database, err error) {
	for _, f := range accountFiles {
		text, err := a.root.Read(f.at)
		if err != nil && !files.IsAbsent(err) {
			return d, fmt.Errorf("reading accounts: %w", err)
		}
		*f.text(&d) = string(text)
	}
	return d, nil
}

// change writes the files that differ. change does not change the mode and owner of existing files.
func (a AccountFiles) change(do func(*host.Database) error) error {
	was, err := a.load()
	if err != nil {
		return err
	}
	is := was
	if err := do(&is); err != nil {
		return err
	}
	for _, f := range accountFiles {
		if *f.text(&was) == *f.text(&is) {
			continue
		}
		want, err := a.root.Stat(f.at)
		if err != nil {
			return err
		}
		if want.Kind == host.Absent {
			want = host.Entry{Kind: host.File, Mode: f.mode}
		}
		if err := a.root.Write(f.at, want, []byte(*f.text(&is))); err != nil {
			return err
		}
	}
	return nil
}

// User implements host.Passwd.
func (a AccountFiles) User(_ context.Context, name string) (host.User, []byte, error) {
	d, err := a.load()
	u, password := d.User(name)
	return u, []byte(password), err
}

// Group implements host.Passwd.
func (a AccountFiles) Group(_ context.Context, name string) (host.Group, error) {
	d, err := a.load()
	return d.GroupOf(name), err
}

// SetUser implements host.Passwd.
func (a AccountFiles) SetUser(_ context.Context, name string, want host.User, password []byte) error {
	return a.change(func(d *host.Database) error { return d.SetUser(name, want, string(password)) })
}

// SetGroup implements host.Passwd.
func (a AccountFiles) SetGroup(_ context.Context, name string, want host.Group) error {
	return a.change(func(d *host.Database) error { return d.SetGroup(name, want) })
}

// Skeleton implements host.Passwd. Skeleton omits devices, sockets and pipes.
func (a AccountFiles) Skeleton(context.Context) ([]host.SkeletonFile, error) { return a.skeleton("") }

func (a AccountFiles) skeleton(below string) (files []host.SkeletonFile, err error) {
	names, err := a.root.List(path.Join(skeletonDir, below))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f := host.SkeletonFile{Path: path.Join(below, name)}
		at := path.Join(skeletonDir, f.Path)
		if f.Entry, err = a.root.Stat(at); err != nil {
			return nil, err
		}
		var more []host.SkeletonFile
		switch f.Entry.Kind {
		case host.File:
			f.Contents, err = a.root.Read(at)
		case host.Dir:
			more, err = a.skeleton(f.Path)
		case host.Link:
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(append(files, f), more...)
	}
	return files, nil
}
