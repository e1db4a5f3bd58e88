package source

import "io/fs"

// Tree is the files of one commit below the source's path: real files on disk, read-only by agreement, and nothing
// but regular files. Symbolic links, submodules and hostile names are never written; they are listed in Refused.
type Tree struct {
	// Commit that the files are of. Its Hash is empty for a plain directory.
	Commit Commit
	// Root is the directory on disk that holds the files; Butane reads `local:` files below it.
	Root string
	// FS is the same directory as a file system, for everybody else.
	FS fs.FS
	// Digest of all files: `sha256:<hex>` over paths, modes and contents; equal for the same commit and path, whatever
	// the way it was fetched.
	Digest string
	// Refused lists entries that were left out, by path in lexical order.
	Refused []Refusal
}

// Refusal is one entry of a tree that is not taken, and why.
type Refusal struct {
	// Path of the entry, relative to the tree's root, slash separated.
	Path string
	// Why in words: "symbolic link", "submodule", "name holds a control character".
	Why string
}
