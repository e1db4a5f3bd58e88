package secrets

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// KeySize is the size in bytes of the key for revisions.
const KeySize = 32

// Entry is what the server knows of one rendered config.
type Entry struct {
	// for all programs
	Published v1alpha1.SecretsRevision
	// of the revision; nil if the server does not have them. For the config of a pool whose nodes have configs of their
	// own, those of their base.
	Files []v1alpha1.SecretFile
	// that of the pool, and the secrets of the configs of single nodes, by name; zero for a config that all nodes run
	config Config
	sets   map[string]*set
}

// State has an entry for each rendered config with unresolved files, by name.
type State map[string]Entry

// Source is everything from which Next resolves the files of configs.
type Source struct {
	Objects Objects
	Decrypt Decrypt
	// of the revisions, the same on all servers of a cluster
	Key []byte
	// by name of the config
	Published map[string]v1alpha1.SecretsRevision
}

// Next resolves configs. One with a problem keeps its contents and its revision from the state before. Without such
// contents, and if an object is no longer for the pool, it keeps only the published revision: nodes that have the
// contents continue with them, and no node can read them. Configs that are not listed have no entry.
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

// nextOf returns a fault.PanicError for a panic: one config must not end a server that has others.
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

// nextOfNodes is for a pool whose nodes have configs of their own.
func nextOfNodes(have State, c Config, from Source) Entry {
	was, published := have[c.Name], from.Published[c.Name]
	entry := Entry{config: c, sets: map[string]*set{}}
	own := v1alpha1.OwnSecrets{}
	var problems []v1alpha1.SecretProblem
	if c.hasSecrets() {
		base := c
		base.Name = c.Nodes.Base
		files, bad := base.resolve(from.Objects, from.Decrypt)
		if entry.Files, problems = files, bad; len(bad) == 0 {
			own.Base = revision(from.Key, base.Name, files)
		} else {
			entry.Files, own.Base = was.keptBase(bad, published)
		}
	}
	complete := !c.hasSecrets() || own.Base != ""
	together := newDigest(sha256.New())
	together.add([]byte(own.Base))
	sets, before, nodes := setsOf(c), map[string]string{}, nodesOf(c)
	if published.Own != nil {
		before = published.Own.ByConfig(c.Nodes)
	}
	for _, s := range sets {
		bad := s.resolve(have, c, from)
		for i := range bad {
			bad[i].Node = nodes[s.hashes[0]]
		}
		if problems = append(problems, bad...); len(bad) > 0 && s.revision == "" {
			s.revision = before[nameOf(c, s.hashes[0])]
		}
		complete = complete && (s.id == "" || s.revision != "")
		together.add([]byte(s.hashes[0]))
		together.add([]byte(s.revision))
		for _, hash := range s.hashes {
			entry.sets[nameOf(c, hash)] = s
		}
	}
	own.Rest, own.Sets = inSets(sets)
	if complete {
		entry.Published.Revision = together.text()
	}
	entry.Published.Own, entry.Published.Problems, entry.Published.Changes = &own, bounded(problems),
		changes(c, from.Objects)
	return entry
}

// setsOf groups the configs of single nodes by their secrets, sorted by their first hash, whatever the values.
func setsOf(c Config) []*set {
	byID := map[string]*set{}
	prefix := nameOf(c, "")
	for name, own := range c.Own {
		id := own.sources()
		if byID[id] == nil {
			byID[id] = &set{id: id}
		}
		byID[id].hashes = append(byID[id].hashes, strings.TrimPrefix(name, prefix))
	}
	for _, s := range byID {
		slices.Sort(s.hashes)
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b *set) int {
		return strings.Compare(a.hashes[0], b.hashes[0])
	})
}

// nodesOf returns the first node with each config, by its hash.
func nodesOf(c Config) map[string]string {
	out := map[string]string{}
	for node, hash := range c.Nodes.Nodes {
		if first, had := out[hash]; !had || node < first {
			out[hash] = node
		}
	}
	return out
}

// inSets is what is published: the largest set is not listed.
func inSets(sets []*set) (rest string, listed []v1alpha1.SecretSet) {
	largest := -1
	for i, s := range sets {
		if largest < 0 || len(s.hashes) > len(sets[largest].hashes) {
			largest, rest = i, s.revision
		}
	}
	for i, s := range sets {
		if i != largest {
			listed = append(listed, v1alpha1.SecretSet{Revision: s.revision, Configs: s.hashes})
		}
	}
	return rest, listed
}

// bounded has each problem once, and only the first ones: many configs may lack the same secret.
func bounded(problems []v1alpha1.SecretProblem) []v1alpha1.SecretProblem {
	var out []v1alpha1.SecretProblem
	had := map[string]bool{}
	for _, p := range problems {
		about := fmt.Sprint(p.Path, " ", p.Reference, " ", p.Reason)
		if p.Reference == "" {
			about += p.Node
		}
		if !had[about] && len(out) < maxProblems {
			out = append(out, p)
		}
		had[about] = true
	}
	return out
}

// kept stays in force of a config with a problem.
func (s State) kept(c Config, from Source) Entry {
	entry := s[c.Name]
	if entry.Published.Revision == "" {
		entry.Published.Revision = from.Published[c.Name].Revision
	}
	return entry
}

// isForbidden: an object is not for the pool.
func isForbidden(problems []v1alpha1.SecretProblem) bool {
	return slices.ContainsFunc(problems, func(p v1alpha1.SecretProblem) bool {
		return p.Reason == v1alpha1.SecretNotForPool
	})
}

// revision is the keyed digest of the resolved files and the name of the config, so that equal values in two pools
// differ.
func revision(key []byte, config string, files []v1alpha1.SecretFile) string {
	d := newDigest(hmac.New(sha256.New, key))
	d.add([]byte(config))
	for _, f := range files {
		d.add([]byte(f.Path))
		d.add(f.Contents)
	}
	return d.text()
}

// digest is over a list of texts.
type digest struct{ hash.Hash }

func newDigest(h hash.Hash) digest { return digest{h} }

func (d digest) add(data []byte) {
	d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
	d.Write(data)
}

func (d digest) text() string { return hex.EncodeToString(d.Sum(nil)[:16]) }

// changes has the newest change of each object last.
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
