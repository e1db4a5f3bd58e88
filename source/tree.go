package source

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Tree has the files of one commit below the source's path: regular files on disk, which no code may change. Refused
// lists symbolic links, submodules and invalid names, which are never written to disk.
type Tree struct {
	// Commit is the commit that the files are from. Commit.Hash is empty for a directory that is not a commit.
	Commit Commit
	// Root is the directory on disk that holds the files; Butane reads `local:` files below it.
	Root string
	// FS is the same directory as a file system.
	FS fs.FS
	// Extract puts a file into Root, if FS has it in memory. It is nil if Root has all files, and may be called
	// concurrently.
	Extract func(name string) error
	// Digest is the digest of all files: `sha256:<hex>` over paths, modes and contents. The digest of a commit and path
	// is always the same, whichever way Bunsen fetched the commit.
	Digest string
	// Refused lists the refused entries, by path in lexical order.
	Refused []Refusal
	// Entries are the files and the refused entries, by path. Entries is nil for a tree that a store has kept.
	Entries map[string]Entry
}

// Entry is what a commit has at one path.
type Entry struct {
	// State changes together with the entry: it has the mode and the digest of a file, and the target of a refused
	// entry. It is empty where the target is unknown.
	State string
	// Refused is the reason why the entry is refused, or "" for a file.
	Refused string
}

// SubmoduleWhy is the reason with which a submodule is refused.
const SubmoduleWhy = "submodule"

// Destination is where the files of a tree are written.
type Destination struct {
	// Dir is the directory. The directory exists and is empty.
	Dir string
	// Earlier is the directory of another tree, such as that of the previous commit; empty: none. Files that are the
	// same in both trees may be linked instead of written.
	Earlier string
	// Memory keeps the files of a tree that is not large in memory: Dir gets those that Tree.Extract asks for.
	Memory bool
}

// Refusal is one refused entry of a tree, with the reason.
type Refusal struct {
	// Path is the path of the entry, relative to the tree's root, slash separated.
	Path string
	// Why is the reason: "symbolic link", "submodule", "name holds a control character".
	Why string
	// Target is what the entry stands for: the commit of a submodule, the git blob with the text of a link,
	// the digest of a Git LFS pointer. Target is empty where that is unknown.
	Target string `json:",omitempty"`
}

// Limits bound the size of a tree, so that no commit can fill the controller's disk or memory. A field that is 0 stands
// for its default.
type Limits struct {
	// Entries is the largest number of entries, including folders and refused entries; 20,000 by default.
	Entries int
	// Bytes is the largest size of all files; 256 MiB by default.
	Bytes int64
	// FileBytes is the largest size of one file; 128 MiB by default.
	FileBytes int64
}

// OrDefault returns the limits with the defaults in place of zero fields.
func (l Limits) OrDefault() Limits {
	if l.Entries <= 0 {
		l.Entries = 20_000
	}
	if l.Bytes <= 0 {
		l.Bytes = 256 << 20
	}
	if l.FileBytes <= 0 {
		l.FileBytes = 128 << 20
	}
	return l
}

// SumBytes is the size from which a file is recorded by AddSum. A Git LFS pointer is smaller.
const SumBytes = 1 << 20

const (
	maxName = 255  // the limit of file systems for a name, in bytes
	maxPath = 1024 // The system's limit is larger; the rest is for the path of the folder that holds the tree.
	// maxDepth is how many folders may be nested. Code that writes a tree has all nested folders open at once.
	maxDepth = 32
)

// RefuseName returns why an entry with this name is refused, or "".
func RefuseName(name string) string {
	switch {
	case name == "" || name == "." || name == "..":
		return "the name stands for another folder"
	case strings.EqualFold(name, ".git"):
		return "the name is reserved for git's own folder"
	case strings.Contains(name, "/"):
		return "the name holds a slash"
	case !utf8.ValidString(name):
		return "the name is not UTF-8"
	case safetext.HasControl(name):
		return "the name holds a control character"
	case len(name) > maxName:
		return fmt.Sprintf("the name has %d bytes, at most %d", len(name), maxName)
	}
	return ""
}

// Inventory collects the entries of a tree. Inventory checks each entry and the limits, and computes the digest. All
// code that creates trees uses Inventory, so that all trees follow the same rules.
type Inventory struct {
	limits  Limits
	entries int
	bytes   int64
	files   []file
	refused []Refusal
}

type file struct {
	path       string
	executable bool
	sum        [sha256.Size]byte
}

// NewInventory returns an empty inventory.
func NewInventory(l Limits) *Inventory { return &Inventory{limits: l.OrDefault()} }

// Enter counts an entry of a folder and checks its name; ok is false if the entry is refused. The error is a Stalled
// InvalidTree fault for too many entries.
func (v *Inventory) Enter(folder, name string) (p string, ok bool, err error) {
	v.entries++
	if v.entries > v.limits.Entries {
		return "", false, tooMuch("more than %d files and folders: point the source's path at a smaller folder",
			v.limits.Entries)
	}
	if reason := RefuseName(name); reason != "" {
		v.Refuse(path.Join(folder, printable(name)), reason)
		return "", false, nil
	}
	p = path.Join(folder, name)
	if reason := RefusePath(p); reason != "" {
		v.Refuse(path.Join(folder, printable(name)), reason)
		return "", false, nil
	}
	return p, true, nil
}

// RefusePath returns why no tree can have a path, whatever its names are; "" if it can.
func RefusePath(p string) string {
	if len(p) > maxPath {
		return fmt.Sprintf("the path has %d bytes, at most %d", len(p), maxPath)
	}
	if depth := strings.Count(p, "/"); depth > maxDepth {
		return fmt.Sprintf("it is in %d nested folders, at most %d", depth, maxDepth)
	}
	return ""
}

// Refuse records an entry as refused.
func (v *Inventory) Refuse(p, why string) { v.RefuseTarget(p, why, "") }

// RefuseTarget records an entry as refused that stands for something else: a submodule for a commit, a symbolic link
// for the git blob with its text. An empty target is unknown.
func (v *Inventory) RefuseTarget(p, why, target string) {
	v.refused = append(v.refused, Refusal{Path: p, Why: why, Target: target})
}

// BlobOf returns the name of the git blob with a text.
func BlobOf(text string) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)))
}

// Admit adds a file's size before its content is read. The error is a Stalled InvalidTree fault that names the file.
func (v *Inventory) Admit(p string, size int64) error {
	if size > v.limits.FileBytes {
		return tooMuch("%s has %d bytes, at most %d for one file: keep it out of the source's path", p, size,
			v.limits.FileBytes)
	}
	v.bytes += size
	if v.bytes > v.limits.Bytes {
		return tooMuch("the files up to %s have more than %d bytes in all: point the source's path at a smaller folder",
			p, v.limits.Bytes)
	}
	return nil
}

// LFSPointer is why an inventory refuses a pointer of Git LFS.
const LFSPointer = "Git LFS pointer, and the content is not in the repository: commit the file without Git LFS, or " +
	"push it to a registry, name its address as `source`, and run `bunsen hash`"

// Add records a file's content. Add returns false, and refuses the file, for a Git LFS pointer.
func (v *Inventory) Add(p string, executable bool, content []byte) bool {
	if bytes.HasPrefix(content, []byte("version https://git-lfs.github.com/spec/")) && len(content) < 1024 {
		sum := sha256.Sum256(content)
		v.RefuseTarget(p, LFSPointer, hex.EncodeToString(sum[:]))
		return false
	}
	v.files = append(v.files, file{p, executable, sha256.Sum256(content)})
	return true
}

// AddSum records a file by the SHA-256 of its content, for content that is too large for memory. The content must have
// at least SumBytes bytes, so it is no Git LFS pointer.
func (v *Inventory) AddSum(p string, executable bool, sum [sha256.Size]byte) {
	v.files = append(v.files, file{p, executable, sum})
}

// Digest returns `sha256:<hex>` over the paths, modes and contents of all added files. The order of the files has no
// effect on the digest.
func (v *Inventory) Digest() string {
	slices.SortFunc(v.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	h := sha256.New()
	for _, f := range v.files {
		// A path contains no NUL, so different inventories write different bytes.
		fmt.Fprintf(h, "%s %s\x00", f.state(), f.path)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// state is the file's mode and the digest of its content.
func (f file) state() string {
	mode := "0644"
	if f.executable {
		mode = "0755"
	}
	return fmt.Sprintf("%s %x", mode, f.sum)
}

// Entries lists all files and refused entries by path, in no order.
func (v *Inventory) Entries() map[string]Entry {
	out := make(map[string]Entry, len(v.files)+len(v.refused))
	for _, f := range v.files {
		out[f.path] = Entry{State: f.state()}
	}
	for _, r := range v.refused {
		out[r.Path] = Entry{State: r.Target, Refused: r.Why}
	}
	return out
}

// Refused lists the refused entries in lexical order of paths.
func (v *Inventory) Refused() []Refusal {
	slices.SortStableFunc(v.refused, func(a, b Refusal) int { return strings.Compare(a.Path, b.Path) })
	return v.refused
}

func tooMuch(format string, args ...any) error {
	return fault.NewStalled(v1alpha1.ReasonInvalidTree, fmt.Errorf(format, args...))
}

// printable returns a name that is safe on a terminal and in a path.
func printable(name string) string {
	if len(name) > 60 {
		name = name[:60] + "…"
	}
	quoted := safetext.Quote(name)
	return strings.ReplaceAll(quoted, "/", `\x2f`)
}

// CleanPath reads a GitSource's spec.path: the folder's path from the repository's root, slash separated, empty for the
// root itself. `./infra/` is `infra`. The error is a Stalled InvalidSpec fault that says what to write.
func CleanPath(p string) (string, error) {
	switch {
	case strings.HasPrefix(p, "/"):
		return "", invalid("path %q begins with a slash: write it from the repository's root, such as infra/prod", p)
	case strings.Contains(p, `\`):
		return "", invalid("path %q holds a backslash: separate folders by /", p)
	}
	for _, name := range strings.Split(p, "/") {
		if name == ".." {
			return "", invalid("path %q contains ..: write it from the repository's root", p)
		}
		if reason := RefuseName(name); reason != "" && name != "" && name != "." {
			return "", invalid("path %q: %s", p, reason)
		}
	}
	clean := path.Clean(p)
	if clean == "." {
		clean = ""
	}
	return clean, nil
}

// NoSuchPath returns the error for a folder that a revision does not have: a Stalled PathNotFound fault. The parameter
// parent is the deepest existing folder of the path, and folders are the folders in parent.
func NoSuchPath(p string, at Revision, parent string, folders []string) error {
	where := "at the root there are"
	if parent != "" {
		where = fmt.Sprintf("in %q there are", parent)
	}
	folders = slices.Clone(folders)
	slices.Sort(folders)
	return fault.NewStalled(v1alpha1.ReasonPathNotFound,
		fmt.Errorf("no folder %q in %s: %s the folders: %s", p, at.Short(), where, listText(folders)))
}
