package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// maxEntries limits the entries of an archive, also outside of the folder. inflation is the factor by which an archive
// may be larger than the limit of the files.
const (
	maxEntries = 200_000
	inflation  = 8
)

// errEnd ends the reading of an archive that is larger than the limit.
var errEnd = errors.New("the archive is larger than the limit")

// ArchiveWriter stores the files of an archive.
type ArchiveWriter interface {
	// Write stores a file. The path is relative, slash separated, and has no link.
	Write(path string, executable bool, content []byte) error
}

// ArchiveReader reads one folder of an archive.
type ArchiveReader struct {
	// Folder is the folder to read, as source.CleanPath returns it.
	Folder string
	// At is the revision of the archive, for messages.
	At source.Revision
	// Limits of the files.
	Limits source.Limits
	// Into stores the files.
	Into ArchiveWriter
}

// Read reads an archive to its end. Read stores the regular files of the folder, and refuses everything else entry by
// entry. Paths in the inventory are relative to the folder. Errors are Stalled faults: PathNotFound, with the existing
// folders; InvalidTree for a damaged or too large archive.
func (r ArchiveReader) Read(ctx context.Context, from io.Reader) (*source.Inventory, error) {
	limits := r.Limits.OrDefault()
	u := &unpack{
		ArchiveReader: r, inventory: source.NewInventory(limits), limits: limits,
		kinds: map[string]kind{"": folder}, folders: map[string]bool{"": true},
	}
	in := tar.NewReader(&bounded{from, inflation*limits.Bytes + maxEntries*1024})
	for n := 0; ; n++ {
		header, err := in.Next()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return u.end()
		case errors.Is(err, errEnd), n >= maxEntries:
			return nil, invalid("the archive is larger than the limit: leave out what is not configuration")
		case err != nil:
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
		if err := u.entry(header, in); err != nil {
			return nil, err
		}
	}
}

// kind says what is at a path of the archive.
type kind int

const (
	unseen kind = iota
	folder
	file
	refused
)

// unpack is the state while Read reads one archive.
type unpack struct {
	ArchiveReader
	limits    source.Limits
	inventory *source.Inventory
	// kinds are the paths below the folder, relative to it; folders are all folders of the archive.
	kinds   map[string]kind
	folders map[string]bool
}

func (u *unpack) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, reason := cleanName(h.Name)
	if reason == "" {
		u.note(name, h.Typeflag == tar.TypeDir)
	}
	if u.Folder != "" {
		below, ok := strings.CutPrefix(name, u.Folder+"/")
		if !ok {
			return nil // The entry is outside of the folder, or is the folder itself.
		}
		name = below
	}
	if reason == "" {
		reason = source.RefusePath(name) // before anything looks at its folders one by one
	}
	switch {
	case reason != "":
		return u.refuseOutside(h.Name, reason)
	case name == "":
		return nil
	case h.Typeflag == tar.TypeDir:
		_, err := u.enterFolder(name)
		return err
	}
	ok, err := u.enter(name, file)
	if err != nil || !ok {
		return err
	}
	if why := refuseType(h); why != "" {
		u.kinds[name] = refused
		target := ""
		if h.Linkname != "" {
			target = source.BlobOf(h.Linkname) // as git has it, so a link to another file is a change of the tree
		}
		u.inventory.RefuseTarget(name, why, target)
		return nil
	}
	return u.file(name, h, content)
}

// note records the folders of a path, for the message that lists the existing folders if the requested folder is
// missing: those on the way to it, and those beside them. A path may have a million bytes and half as many folders.
func (u *unpack) note(name string, isFolder bool) {
	for end := 0; end < len(name); end++ {
		if i := strings.IndexByte(name[end:], '/'); i >= 0 {
			end += i
		} else if end = len(name); !isFolder {
			return
		}
		u.folders[name[:end]] = true
		if !strings.HasPrefix(u.Folder+"/", name[:end]+"/") {
			return
		}
	}
}

// refuseOutside counts and refuses a name that no path below the archive's root can have.
func (u *unpack) refuseOutside(name, reason string) error {
	if _, _, err := u.inventory.Enter("", "entry"); err != nil {
		return err
	}
	shown := safetext.Quote(name[:min(len(name), 60)])
	u.inventory.Refuse(strings.ReplaceAll(shown, "/", `\x2f`), reason)
	return nil
}

// enterFolder records a folder and its parents. enterFolder returns false if one of them is refused.
func (u *unpack) enterFolder(p string) (bool, error) {
	switch u.kinds[p] {
	case folder:
		return true, nil
	case refused:
		return false, nil
	case file:
		u.inventory.Refuse(p, "a file has the name of this folder")
		return false, nil
	}
	ok, err := u.enter(p, folder)
	return ok, err
}

// enter records a path that the archive has for the first time, below folders that are not refused.
func (u *unpack) enter(p string, as kind) (bool, error) {
	parent := path.Dir(p)
	if parent == "." {
		parent = ""
	}
	if ok, err := u.enterFolder(parent); err != nil || !ok {
		return false, err
	}
	at, ok, err := u.inventory.Enter(parent, path.Base(p))
	switch {
	case err != nil:
		return false, err
	case !ok:
		u.kinds[p] = refused
		return false, nil
	case u.kinds[p] != unseen:
		u.inventory.Refuse(at, "the folder has two entries of this name")
		return false, nil
	}
	u.kinds[p] = as
	return true, nil
}

func (u *unpack) file(p string, h *tar.Header, content io.Reader) error {
	if err := u.inventory.Admit(p, h.Size); err != nil {
		return err
	}
	data := make([]byte, h.Size) // Admit made sure that the size is at most the limit of a file.
	if _, err := io.ReadFull(content, data); err != nil {
		if errors.Is(err, errEnd) {
			return invalid("the archive is larger than the limit: leave out what is not configuration")
		}
		return fmt.Errorf("reading %s in the archive: %w", p, err)
	}
	executable := h.Mode&0o100 != 0
	if !u.inventory.Add(p, executable, data) {
		return nil
	}
	if err := u.Into.Write(p, executable, data); err != nil {
		return fmt.Errorf("writing %s: %w", p, err)
	}
	return nil
}

// end returns the inventory, or an error if the archive does not have the folder.
func (u *unpack) end() (*source.Inventory, error) {
	if u.folders[u.Folder] {
		return u.inventory, nil
	}
	parent := u.Folder
	for !u.folders[parent] {
		if parent = path.Dir(parent); parent == "." {
			parent = ""
		}
	}
	var there []string
	for p := range u.folders {
		if dir := path.Dir(p); p != "" && (dir == parent || dir == "." && parent == "") &&
			source.RefuseName(path.Base(p)) == "" {
			there = append(there, path.Base(p))
		}
	}
	slices.Sort(there)
	return nil, source.NoSuchPath(u.Folder, u.At, parent, there)
}

// cleanName returns the path of an entry from the archive's root, or why the entry is refused. The path of the root
// itself is "".
func cleanName(name string) (clean, reason string) {
	if strings.HasPrefix(name, "/") {
		return "", "the path is absolute"
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", "the path leads out of its folder"
		}
	}
	clean = path.Clean(name)
	if clean == "." {
		clean = ""
	}
	return clean, ""
}

// refuseType returns why an entry that is not a folder is refused; "" for a regular file.
func refuseType(h *tar.Header) string {
	switch h.Typeflag {
	case tar.TypeReg:
		for key := range h.PAXRecords {
			if strings.HasPrefix(key, "GNU.sparse.") {
				return "sparse file"
			}
		}
		return ""
	case tar.TypeGNUSparse:
		return "sparse file"
	case tar.TypeSymlink:
		return "symbolic link"
	case tar.TypeLink:
		return "hard link"
	default:
		return "not a regular file"
	}
}

func invalid(format string, args ...any) error {
	return fault.NewStalled(v1alpha1.ReasonInvalidTree, fmt.Errorf(format, args...))
}

// bounded is a reader that fails after a number of bytes.
type bounded struct {
	io.Reader
	left int64
}

// Read reads at most as many bytes as the limit still allows.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errEnd
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
