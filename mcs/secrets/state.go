package secrets

import (
	"cmp"
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
	"github.com/bunsen-os/bunsen/api/machineconfig"
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
	// that of the pool, if it gives single nodes configs of their own: their secrets, sorted and by config; else zero
	config Config
	sets   []*set
	byName map[string]*set
	// stuck: the base has problems
	stuck bool
	// told are the problems that this server published last
	told []v1alpha1.SecretProblem
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
	entry, base := Entry{config: c}, ""
	var problems []v1alpha1.SecretProblem
	if c.hasSecrets() {
		of := c
		of.Name = c.Nodes.Base
		files, bad := of.resolve(from.Objects, from.Decrypt)
		if entry.Files, problems = files, bad; len(bad) == 0 {
			base = revision(from.Key, of.Name, files)
		} else {
			entry.stuck = true
			entry.Files, base = was.keptBase(bad, published)
		}
	}
	sets, before, nodes := setsOf(c), map[string]string{}, nodesOf(c)
	if published.Own != nil {
		before = published.Own.ByConfig(c.Nodes)
	}
	for _, s := range sets {
		bad := s.resolve(have, c, from)
		for i := range bad {
			bad[i].Node = nodes[s.hashes[0]]
		}
		if problems = append(problems, bad...); len(bad) > 0 {
			s.stuck, s.revision = true, cmp.Or(s.revision, before[nameOf(c, s.hashes[0])])
		}
	}
	if entry = entry.with(base, sets); len(problems) > 0 {
		entry.told = was.told
	}
	entry.Published.Problems, entry.Published.Changes = bounded(problems), changes(c, from.Objects)
	return entry
}

// with sets the revisions of the base and of the sets.
func (e Entry) with(base string, sets []*set) Entry {
	own, complete := v1alpha1.OwnSecrets{Base: base}, !e.config.hasSecrets() || base != ""
	together := newDigest(sha256.New())
	together.add([]byte(base))
	e.sets, e.byName = sets, map[string]*set{}
	for _, s := range sets {
		complete = complete && (s.id == "" || s.revision != "")
		together.add([]byte(s.hashes[0]))
		together.add([]byte(s.revision))
		for _, hash := range s.hashes {
			e.byName[nameOf(e.config, hash)] = s
		}
	}
	own.Rest, own.Sets = inSets(sets)
	if e.Published.Own, e.Published.Revision = &own, ""; complete {
		e.Published.Revision = together.text()
	}
	return e
}

// Beside returns what this server publishes and serves, as one of several. A config that it cannot resolve keeps the
// revision that is published, because another server may have resolved it: two servers with different values would
// otherwise replace each other's revision without end, and the rollout would follow each time. If the problem may be
// that of this server alone, and another one has replaced it, this server leaves it at that.
func Beside(s State, published map[string]v1alpha1.SecretsRevision) State {
	out := maps.Clone(s)
	for name, e := range out {
		if is, has := published[name]; has && len(e.Published.Problems) > 0 {
			out[name] = e.beside(is)
		}
	}
	return out
}

func (e Entry) beside(published v1alpha1.SecretsRevision) Entry {
	if e.told != nil && hasOfThisServer(e.Published.Problems) && !slices.Equal(published.Problems, e.told) {
		e.Published.Problems = published.Problems
	}
	if e.config.Nodes.IsZero() {
		if published.Revision != "" && published.Revision != e.Published.Revision {
			e.Published.Revision, e.Files = published.Revision, nil
		}
		return e
	}
	if published.Own == nil {
		return e
	}
	base, sets, before := e.Published.Own.Base, slices.Clone(e.sets), published.Own.ByConfig(e.config.Nodes)
	if e.stuck && published.Own.Base != "" && published.Own.Base != base {
		base, e.Files = published.Own.Base, nil
	}
	for i, s := range sets {
		if is := before[nameOf(e.config, s.hashes[0])]; s.stuck && is != "" && is != s.revision {
			sets[i] = &set{id: s.id, revision: is, hashes: s.hashes, stuck: true}
		}
	}
	return e.with(base, sets)
}

// Told returns the state of a server that has published its problems.
func Told(s State) State {
	out := maps.Clone(s)
	for name, e := range out {
		e.told = e.Published.Problems
		out[name] = e
	}
	return out
}

// hasOfThisServer: another server may have a key, or a key service that answers.
func hasOfThisServer(problems []v1alpha1.SecretProblem) bool {
	return slices.ContainsFunc(problems, func(p v1alpha1.SecretProblem) bool {
		return p.Reason == v1alpha1.SecretKeyService || p.Reason == v1alpha1.SecretNoKey
	})
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
	// stuck: it has problems
	stuck bool
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

// sourceOf names an encrypted file by its content.
func sourceOf(format string, body []byte) string {
	sum := sha256.Sum256(body)
	return "sops " + format + " " + hex.EncodeToString(sum[:])
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

func nameOf(c Config, hash string) string {
	return "rendered-" + v1alpha1.RenderedPool(c.Nodes.Base) + "-" + hash
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

const (
	// of a pool with configs of single nodes
	maxProblems = 20
	// of sets, in all earlier revisions together: a ConfigMap is limited
	maxEarlier = 2000
)

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
	of := e.byName[config]
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
