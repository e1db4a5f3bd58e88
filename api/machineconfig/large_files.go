package machineconfig

import (
	"bytes"
	"cmp"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	ign "github.com/bunsen-os/bunsen/api/ignition"
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

// MaxContent is the largest file in bytes.
const MaxContent = 256 << 20

// ErrNoContentStore says what to do with a file that is too large for a MachineConfig.
var ErrNoContentStore = errors.New("keep it in an OCI registry: set --content-registry on the controller and the " +
	"servers, and --large-files on the commands of bunsen. Or push it to a registry or a web server yourself, name " +
	"its address as `source`, and run `bunsen hash`")

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

// ContentTag returns the tag of a file in the registry of the content store. A tag has at most 128 characters, so it
// has half of the hash. Readers verify all of it.
func ContentTag(hash string) string {
	const half = 64
	return "content-" + strings.TrimPrefix(hash, "sha512-")[:half]
}

// SizeText returns a number of bytes for people: "1 byte", "12 KiB", "1.5 MiB", "100 MiB".
func SizeText(bytes int64) string {
	const kib, mib = 1 << 10, 1 << 20
	switch {
	case bytes == 1:
		return "1 byte"
	case bytes < kib:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < mib-kib/2:
		return fmt.Sprintf("%d KiB", (bytes+kib/2)/kib)
	case bytes < 10*mib && (bytes*10+mib/2)/mib%10 != 0:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
	}
	return fmt.Sprintf("%d MiB", (bytes+mib/2)/mib)
}

// storedPrefix precedes the hash in the address of a file of the content store. No server has this address, because the
// domain .invalid never resolves. The server and the daemon replace it.
const storedPrefix = "https://content.bunsen.invalid/"

var storedHash = regexp.MustCompile(`^sha512-[0-9a-f]{128}$`)

// IsStoredHash reports whether a text is the hash of a file of the content store: sha512-HEX in lower case.
func IsStoredHash(hash string) bool { return storedHash.MatchString(hash) }

// StoredSource returns the address in configs of the file of the content store with a hash.
func StoredSource(hash string) string { return storedPrefix + hash }

// StoredHash returns the hash of the file of the content store that an address names, and whether the address names
// one.
func StoredHash(source string) (hash string, ok bool) {
	hash, ok = strings.CutPrefix(source, storedPrefix)
	if !ok || !IsStoredHash(hash) {
		return "", false
	}
	return hash, true
}

// AddContentHashes adds the hashes of the files of the content store that a MachineConfig names, also in its table of
// nodes.
func AddContentHashes(named map[string]bool, mc *mcfgv1.MachineConfig) {
	addContents(named, mc.Spec.Config.Raw)
	for _, raw := range tableDocuments(mc) {
		addContents(named, raw)
	}
}

// tableDocuments returns the configs of the documents in a table of nodes. An invalid table has none: no pool is
// rendered from it.
func tableDocuments(mc *mcfgv1.MachineConfig) (all [][]byte) {
	pool := PoolOf(mc)
	if pool == "" {
		return nil
	}
	config, err := Parse(mc.Spec)
	if err != nil {
		return nil
	}
	table, err := ReadNodeTable(pool, config)
	if err != nil {
		return nil
	}
	for _, d := range table.Shared {
		all = append(all, d.Spec.Config.Raw)
	}
	for _, n := range table.Nodes {
		for _, d := range n.Documents {
			all = append(all, d.Spec.Config.Raw)
		}
	}
	return all
}

// addContents adds the hashes of the files of the content store that a config names. It looks for the addresses in the
// text, because parsing thousands of configs takes long. A text that only looks like an address keeps its file, which
// does no harm.
func addContents(named map[string]bool, raw []byte) {
	const hash = len("sha512-") + 128
	prefix := []byte(StoredSource(""))
	for {
		_, rest, found := bytes.Cut(raw, prefix)
		if !found {
			return
		}
		if len(rest) >= hash && IsStoredHash(string(rest[:hash])) {
			named[string(rest[:hash])] = true
		}
		raw = rest
	}
}

// shownStored returns the text of messages for an address in the content store.
func shownStored(hash string) string { return "the content store, " + hash[:len("sha512-")+12] + "…" }

// isStoreHost reports whether an address is in the domain of the content store, in any spelling.
func isStoreHost(u *url.URL) bool {
	return strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), "content.bunsen.invalid")
}

// checkStored returns why a resource whose address is in the domain of the content store names no file of the content
// store. The hash may also be a SHA-256, which WithHashes writes on machines: it decides the contents as well.
func checkStored(r ign.Resource) error {
	hash, ok := StoredHash(*r.Source)
	switch {
	case !ok:
		return errors.New("its source is in the domain of the content store, but it is not " + storedPrefix +
			"sha512-HEX")
	case r.Compression != nil && *r.Compression != "":
		return errors.New("its source is in the content store, which has no compressed files: remove `compression`")
	case r.Verification.Hash == nil || *r.Verification.Hash != hash && !strings.HasPrefix(*r.Verification.Hash,
		"sha256-"):
		return fmt.Errorf("its source is in the content store, so its verification hash must be %s", hash)
	}
	return nil
}
