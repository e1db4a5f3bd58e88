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
}

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
}
