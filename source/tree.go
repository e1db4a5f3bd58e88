package source

import "io/fs"

// Tree has the files of one commit below the source's path: regular files on disk, which no code may change. Refused
// lists symbolic links, submodules and invalid names, which are never written to disk.
type Tree struct {
	// Commit is the commit that the files are from. Commit.Hash is empty for a directory that is not a commit.
	Commit Commit
	// Root is the directory on disk that holds the files; Butane reads `local:` files below it.
	Root string
	// FS is the same directory as a file system.
	FS fs.FS
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
