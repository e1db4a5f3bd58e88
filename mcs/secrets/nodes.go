package secrets

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// of a pool with configs of single nodes
	maxProblems = 20
	// of sets, in all earlier revisions together: a ConfigMap is limited
	maxEarlier = 2000
)

// set are the secrets of configs of single nodes that refer to the same ones. Their revision does not depend on the
// other texts of the configs, so that thousands of them need one revision.
type set struct {
	// names the secrets, without their values, and the revision of these; empty if they were never resolved
	id, revision string
	// the values of references, and those of encrypted files by sourceOf; nil if the server does not have them
	objects Objects
	plain   map[string][]byte
	// in the names of the configs, sorted
	hashes []string
}

// sourceOf names an encrypted file by its content.
func sourceOf(format string, body []byte) string {
	sum := sha256.Sum256(body)
	return "sops " + format + " " + hex.EncodeToString(sum[:])
}

// sources names the secrets of a config, without their values, sorted; empty for none.
func (c Config) sources() string {
	if c.invalid != nil {
		return "invalid " + c.Name
	}
	var out []string
	for _, f := range c.Files {
		if f.Content.Format != "" {
			out = append(out, sourceOf(f.Content.Format, f.Content.Body))
		}
		for _, r := range f.Content.References() {
			out = append(out, r.String())
		}
		if len(f.Content.References()) == 0 && f.Content.Format == "" {
			out = append(out, "template") // The server resolves it too, although it has no value.
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), "\n")
}

// keptBase stays in force of a base that has problems now.
func (e Entry) keptBase(bad []v1alpha1.SecretProblem,
	published v1alpha1.SecretsRevision,
) (files []v1alpha1.SecretFile, revision string) {
	if e.Published.Own != nil {
		files, revision = e.Files, e.Published.Own.Base
	}
	if revision == "" && published.Own != nil {
		revision = published.Own.Base
	}
	if isForbidden(bad) {
		files = nil
	}
	return files, revision
}

func nameOf(c Config, hash string) string {
	return "rendered-" + v1alpha1.RenderedPool(c.Nodes.Base) + "-" + hash
}

// resolve sets the values and the revision of a set. With a problem, it keeps those of the state before, from any set
// with the same secrets, also of another config of the pool.
func (s *set) resolve(have State, of Config, from Source) []v1alpha1.SecretProblem {
	if s.id == "" {
		return nil
	}
	c, pool := of.Own[nameOf(of, s.hashes[0])], v1alpha1.RenderedPool(of.Name)
	_, problems := c.resolve(from.Objects, from.Decrypt)
	if len(problems) > 0 {
		if was := have.set(s.id, pool); was != nil {
			s.revision, s.objects, s.plain = was.revision, was.objects, was.plain
		}
		if isForbidden(problems) {
			s.objects, s.plain = nil, nil
		}
		return problems
	}
	d := newDigest(hmac.New(sha256.New, from.Key))
	d.add([]byte("secrets of nodes in " + pool))
	d.add([]byte(s.id))
	s.objects, s.plain = Objects{}, map[string][]byte{}
	for _, f := range c.Files {
		if f.Content.Format != "" {
			if plain, err := from.Decrypt(f.Content.Format, f.Content.Body); err == nil {
				s.plain[sourceOf(f.Content.Format, f.Content.Body)] = plain
			}
		}
		for _, r := range f.Content.References() {
			value, _ := from.Objects.value(r, pool)
			if s.objects[id(r)].Data == nil {
				s.objects[id(r)] = Object{Pools: pool, Data: map[string][]byte{}}
			}
			s.objects[id(r)].Data[r.Key] = value
		}
	}
	for line := range strings.SplitSeq(s.id, "\n") { // The references are sorted in it.
		if r, err := machineconfig.ParseSecret(line); err == nil {
			d.add(s.objects[id(r)].Data[r.Key])
		}
	}
	s.revision = d.text()
	return nil
}

// set is nil if the pool has none with these secrets.
func (s State) set(id, pool string) *set {
	for name, entry := range s {
		if v1alpha1.RenderedPool(name) != pool {
			continue
		}
		for _, known := range entry.sets {
			if known.id == id && known.revision != "" {
				return known
			}
		}
	}
	return nil
}

// WithEarlier returns a state with the earlier revisions of configs of single nodes. They follow from what a server has
// published, so that all servers of a cluster publish the same. Those in the records of pools stay.
func WithEarlier(s State, published map[string]v1alpha1.SecretsRevision, recorded map[string]bool) State {
	out := maps.Clone(s)
	for name, entry := range out {
		if entry.Published.Own != nil {
			own := *entry.Published.Own
			own.Earlier = earlier(own, entry.Published.Revision, published[name], recorded)
			entry.Published.Own = &own
			out[name] = entry
		}
	}
	return out
}

// earlier returns the revisions that the rollout may still need: the newest ones, and those in records.
func earlier(own v1alpha1.OwnSecrets, revision string, published v1alpha1.SecretsRevision,
	recorded map[string]bool,
) []v1alpha1.EarlierSecrets {
	if published.Own == nil {
		return nil
	}
	var out []v1alpha1.EarlierSecrets
	had := map[string]bool{revision: true, "": true}
	add := func(at string, was v1alpha1.OwnSecrets) {
		if !had[at] {
			had[at] = true
			out = append(out, own.Before(was, at))
		}
	}
	for _, e := range published.Own.Earlier {
		if was, known := published.Own.At(e.Revision); known {
			add(e.Revision, was)
		}
	}
	add(published.Revision, *published.Own)
	size, newer := 0, 0
	for i, e := range slices.Backward(out) {
		size += len(e.Sets)
		if newer++; recorded[e.Revision] || newer <= v1alpha1.MaxEarlierSecrets && size <= maxEarlier {
			continue
		}
		out = slices.Delete(out, i, i+1)
	}
	return out
}

// Resolved are the resolved files of one config.
type Resolved struct {
	// of the files, which are nil if the server does not have their contents
	Revision string
	Files    []v1alpha1.SecretFile
}

// ForNode returns the files of a config for a node of its pool. A config of single nodes is only for the nodes to which
// a config of the pool gives it, and their base for the others. found is false if no config of that name has secrets,
// and allowed if it is that of other nodes.
func (s State) ForNode(node, config string) (r Resolved, found, allowed bool) {
	if e, known := s[config]; known && e.config.Nodes.IsZero() {
		return Resolved{e.Published.Revision, e.Files}, true, true
	}
	for name, e := range s {
		if e.config.Nodes.IsZero() || v1alpha1.RenderedPool(name) != v1alpha1.RenderedPool(config) {
			continue
		}
		is, has := e.own(config)
		if found = found || has; has && e.config.Nodes.Of(node) == config {
			return is, true, true
		}
	}
	return Resolved{}, found, false
}

// ForMachine returns the files of a config that a new machine boots, and whether the server has them. The name of a
// pool's config stands for the base.
func (s State) ForMachine(config string) (Resolved, bool) {
	if e, known := s[config]; known {
		if e.Published.Own != nil {
			return Resolved{e.Published.Own.Base, e.Files}, e.Files != nil
		}
		return Resolved{e.Published.Revision, e.Files}, e.Files != nil
	}
	for _, e := range s {
		if r, has := e.own(config); has && r.Files != nil {
			return r, true
		}
	}
	return Resolved{}, false
}

// own returns the files of the base or of a config of single nodes, and whether it has any or is the config of the pool
// itself.
func (e Entry) own(config string) (Resolved, bool) {
	if e.config.Nodes.IsZero() {
		return Resolved{}, false
	}
	if config == e.config.Nodes.Base || config == e.config.Name {
		return Resolved{e.Published.Own.Base, e.Files}, e.config.hasSecrets()
	}
	of := e.sets[config]
	if of == nil || of.id == "" {
		return Resolved{}, false
	}
	out := Resolved{Revision: of.revision}
	if of.objects == nil {
		return out, true
	}
	files, problems := e.config.Own[config].resolve(of.objects, func(format string, body []byte) ([]byte, error) {
		return of.plain[sourceOf(format, body)], nil
	})
	if len(problems) == 0 {
		out.Files = files
	}
	return out, true
}
