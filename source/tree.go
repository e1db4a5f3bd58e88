package source

import "io/fs"

// Tree is the files of one commit below the source's path: regular files on disk, which no code may change. Symbolic links,
// submodules and invalid names are never written; they are listed in Refused.
type Tree struct {
	// Commit of the files. Its Hash is empty for a directory that is not a commit.
	Commit Commit
	// Root is the directory on disk that holds the files; Butane reads `local:` files below it.
	Root string
	// FS is the same directory as a file system.
	FS fs.FS
	// Digest of all files: `sha256:<hex>` over paths, modes and contents. It is equal for the same commit and path, however
	// it was fetched.
	Digest string
	// Refused lists the refused entries, by path in lexical order.
	Refused []Refusal
}

// Destination is where the files of a tree are written.
type Destination struct {
	// Dir is the directory. It exists and is empty.
	Dir string
	// Earlier is the directory of another tree, in which many files may be the same, such as those of the commit before. Such files may be
	// linked instead of written. Empty: none.
	Earlier string
}

// Refusal is one refused entry of a tree, with the reason.
type Refusal struct {
	// Path of the entry, relative to the tree's root, slash separated.
	Path string
	// Why is the reason: "symbolic link", "submodule", "name holds a control character".
	Why string
}
