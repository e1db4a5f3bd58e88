package secrets

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// KeySize is the size in bytes of the key for revisions.
const KeySize = 32

// Entry is what the server knows of one rendered config.
type Entry struct {
	// Published is what all programs may know.
	Published v1alpha1.SecretsRevision
	// Files are the contents of the revision; nil if the server does not have them. For the config of a pool whose
	// nodes have configs of their own, they are those of their base.
	Files []v1alpha1.SecretFile
	// config is the config of the pool, and sets has the secrets of the configs of single nodes, by name. Both are zero
	// for a config that all nodes of a pool run.
	config Config
	sets   map[string]*set
}

// State has an entry for each rendered config with unresolved files, by name.
type State map[string]Entry

// Source is everything from which Next resolves the files of configs.
type Source struct {
	// Objects that the configs may refer to.
	Objects Objects
	// Decrypt decrypts files.
	Decrypt Decrypt
	// Key of the revisions. All servers of a cluster have the same one.
	Key []byte
	// Published are the revisions that a server published before, by name of the config.
	Published map[string]v1alpha1.SecretsRevision
}

// Next resolves configs. A config with a problem keeps the contents and the revision that it has in the state before.
// Without such contents, and if an object is no longer for the pool, it keeps only the published revision: nodes that
// have the contents continue with them, and no node can read them. Configs that are not listed have no entry.
func Next(have State, configs []Config, from Source) State {
	next := State{}
	for _, c := range configs {
		entry, err := nextOf(have, c, from)
		if err != nil {
			entry = have.kept(c, from)
			entry.Published.Problems = []v1alpha1.SecretProblem{{
				Reason:  v1alpha1.SecretInvalid,
				Message: fmt.Sprintf("resolving the files of %s: %v", c.Name, err),
			}}
		}
		next[c.Name] = entry
	}
	return next
}

// nextOf resolves one config. The error is a fault.PanicError: a config must not end a server that has others.
func nextOf(have State, c Config, from Source) (entry Entry, err error) {
	defer fault.Recover(&err)
	if !c.Nodes.IsZero() {
		return nextOfNodes(have, c, from), nil
	}
	files, problems := c.resolve(from.Objects, from.Decrypt)
	entry = Entry{Files: files}
	if len(problems) > 0 {
		if entry = have.kept(c, from); isForbidden(problems) {
			entry.Files = nil
		}
	} else {
		entry.Published.Revision = revision(from.Key, c.Name, files)
	}
	entry.Published.Problems = problems
	entry.Published.Changes = changes(c, from.Objects)
	return entry, nil
}

// kept is what stays in force of a config with a problem.
func (s State) kept(c Config, from Source) Entry {
	entry := s[c.Name]
	if entry.Published.Revision == "" {
		entry.Published.Revision = from.Published[c.Name].Revision
	}
	return entry
}

// isForbidden reports whether an object is not for the pool.
func isForbidden(problems []v1alpha1.SecretProblem) bool {
	return slices.ContainsFunc(problems, func(p v1alpha1.SecretProblem) bool {
		return p.Reason == v1alpha1.SecretNotForPool
	})
}

// revision returns the keyed digest of the resolved files. The digest covers the name of the config, so that equal
// values in two pools have different revisions.
func revision(key []byte, config string, files []v1alpha1.SecretFile) string {
	d := newDigest(hmac.New(sha256.New, key))
	d.add([]byte(config))
	for _, f := range files {
		d.add([]byte(f.Path))
		d.add(f.Contents)
	}
	return d.text()
}

// digest is a digest of a list of texts.
type digest struct{ hash.Hash }

func newDigest(h hash.Hash) digest { return digest{h} }

func (d digest) add(data []byte) {
	d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
	d.Write(data)
}

func (d digest) text() string { return hex.EncodeToString(d.Sum(nil)[:16]) }

// changes returns the last change of each object that a config refers to, the newest last.
func changes(c Config, objects Objects) []v1alpha1.SecretChange {
	var out []v1alpha1.SecretChange
	for _, r := range c.objects() {
		if o, ok := objects[r]; ok && o.isFor(v1alpha1.RenderedPool(c.Name)) {
			out = append(out, v1alpha1.SecretChange{
				Object: strings.TrimSuffix(r.String(), "/"), Time: o.Changed,
				Manager: o.Manager,
			})
		}
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.SecretChange) int { return a.Time.Compare(b.Time) })
	return out[max(0, len(out)-v1alpha1.MaxSecretChanges):]
}
