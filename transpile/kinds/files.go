package kinds

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// maxOwn is the most files in directories of nodes that the origin of a table names.
const maxOwn = 100

// NodeFactsFiles returns the files that a table was built from, in lexical order: the table, the files of its
// documents, and the files that were read in directories of nodes. It names the parent directory dir in place of many
// files in directories of nodes, because an annotation contains the list.
func NodeFactsFiles(table, dir string, read, ofDocuments []origin.File) []origin.File {
	var shared, own []origin.File
	for _, f := range slices.Concat(read, ofDocuments) {
		switch {
		case strings.HasPrefix(f.Path, dir+"/"):
			own = append(own, f)
		case f.Path == table || slices.Contains(ofDocuments, f):
			shared = append(shared, f)
		}
	}
	own = inOrder(own)
	if len(own) > maxOwn {
		digest := sha256.New()
		for _, f := range own {
			fmt.Fprintf(digest, "%q %q\n", f.Path, f.Blob)
		}
		own = []origin.File{{Path: path.Clean(dir), Blob: hex.EncodeToString(digest.Sum(nil))}}
	}
	return inOrder(slices.Concat(shared, own))
}

// inOrder sorts files by their paths, and removes repeated ones.
func inOrder(files []origin.File) []origin.File {
	slices.SortFunc(files, func(x, y origin.File) int { return strings.Compare(x.Path, y.Path) })
	return slices.Compact(files)
}
