package transpile

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/contentstore"
)

// withFiles returns fragments whose large files are read from a tree. A cached fragment may be from another tree.
func withFiles(fragments []Fragment, files fs.FS) []Fragment {
	for i := range fragments {
		fragments[i].Contents = slices.Clone(fragments[i].Contents)
		for k := range fragments[i].Contents {
			fragments[i].Contents[k].FS = files
		}
		withFiles(fragments[i].Documents, files)
	}
	return fragments
}

// Contents returns the files of all fragments that are in the content store, each hash once.
func Contents(fragments []Fragment) (all []contentstore.File) {
	for _, f := range fragments {
		all = append(append(all, f.Contents...), Contents(f.Documents)...)
	}
	slices.SortStableFunc(all, func(a, b contentstore.File) int { return strings.Compare(a.Hash, b.Hash) })
	return slices.CompactFunc(all, func(a, b contentstore.File) bool { return a.Hash == b.Hash })
}
