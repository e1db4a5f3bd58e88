package machineconfig

import (
	"bytes"
	"cmp"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/nodepath"
)

const (
	// MaxContentObject is the largest object in bytes. etcd accepts no larger request. A file with more bytes never
	// fits into a config, whatever its encoding is.
	MaxContentObject = 1_572_864
	// fits is the size to which Move reduces a config that is too large. The config then has space for annotations.
	fits = 1 << 20
	// minMoved is the size of the contents below which a move saves next to nothing.
	minMoved = 4 << 10
)

// LargeFile is a file of a config whose contents are in the content store.
type LargeFile struct {
	// Path is the path on machines.
	Path string
	// Hash is the hash of the contents: sha512-HEX.
	Hash string
	// Size of the contents in bytes.
	Size int64
	// HasFacts is true if the contents have what looks like a reference to a fact of a node. It stays as it is.
	HasFacts bool
	// Name is the file of the repository that has the contents, and FS has the files of the repository. Name is empty
	// if Contents has the contents.
	Name string
	FS   fs.FS
	// Contents are the contents in the form of a config.
	Contents ign.Resource
}

// Open opens the contents.
func (f LargeFile) Open() (io.ReadCloser, error) {
	if f.Name != "" {
		return f.FS.Open(f.Name)
	}
	data, err := Contents(f.Contents)
	if err != nil {
		return nil, fmt.Errorf("reading the contents of %s: %w", f.Path, err)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// ContentResource returns the contents of a file in a config that names a file of the content store.
func ContentResource(hash string) ign.Resource {
	source := StoredSource(hash)
	return ign.Resource{Source: &source, Verification: ign.Verification{Hash: &hash}}
}

// MoveLargeFiles moves the contents of the largest files of a config to the content store, until the config fits into
// an object. The argument size is the size of the object in bytes. A config that fits does not change, so the result
// depends only on the content of the config. Move never moves files with references to secrets or to facts of nodes,
// and files that machines may not download. If all other files do not suffice, the result is still too large.
func MoveLargeFiles(c Config, size int) (Config, []LargeFile, error) {
	if size <= MaxContentObject {
		return c, nil, nil
	}
	c.Ignition.Storage.Files = slices.Clone(c.Ignition.Storage.Files)
	files := c.Ignition.Storage.Files
	var order []int
	for i, f := range files {
		if f.Contents.Source != nil && len(*f.Contents.Source) >= minMoved && isMovable(f) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(len(*files[j].Contents.Source)-len(*files[i].Contents.Source),
			cmp.Compare(files[i].Path, files[j].Path))
	})
	var moved []LargeFile
	for _, i := range order {
		if size <= fits {
			break
		}
		f := &files[i]
		data, err := Contents(f.Contents)
		if err != nil {
			return c, nil, fmt.Errorf("reading the contents of %s: %w", f.Path, err)
		}
		if bytes.Contains(data, []byte(ContentFact)) || len(data) == 0 {
			continue
		}
		sum := sha512.Sum512(data)
		hash := "sha512-" + hex.EncodeToString(sum[:])
		moved = append(moved, LargeFile{Path: f.Path, Hash: hash, Size: int64(len(data)), Contents: f.Contents})
		size -= len(*f.Contents.Source)
		f.Contents = ContentResource(hash)
		size += len(*f.Contents.Source) + len(hash)
	}
	slices.SortStableFunc(moved, func(a, b LargeFile) int { return cmp.Compare(a.Path, b.Path) })
	return c, moved, nil
}

// ContentFact begins a reference to a fact of a node in the contents of a file.
const ContentFact = "${node."

// isMovable reports whether machines may download a file that has its contents in the config.
func isMovable(f ign.File) bool {
	p := path.Clean(f.Path)
	_, unresolved, err := SecretsOf(f.Contents)
	return !IsRemote(f.Contents) && len(f.Append) == 0 && !unresolved && err == nil &&
		!strings.HasPrefix(p, nodepath.UnitDir+"/") && !strings.HasPrefix(p, nodepath.UnitDir+"-preset/")
}
