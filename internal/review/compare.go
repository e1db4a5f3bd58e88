package review

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// Compare returns what the change from base to head does to nodes under head's disruption policy, and what else it
// changes. Pools with equal rendered names cost nothing.
func Compare(base, head Side) Comparison {
	out := Comparison{
		Version: "1", Base: base.Name, Head: head.Name, BaseCommit: base.Commit, HeadCommit: head.Commit,
		Pools: []PoolChange{}, own: map[string]map[string]bool{},
	}
	names := map[string]bool{}
	for _, s := range []Side{base, head} {
		for name := range s.Pools {
			names[name] = true
		}
	}
	t := terms{differ: newDiffer(), policy: head.Policy, overrides: head.Overrides, decrypt: head.Decrypt}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if from := base.Pools[name].Rendered; from != "" && head.Pools[name].Rendered == "" && head.declares(name) {
			out.Pools = append(out.Pools, PoolChange{
				Pool: name, From: from, Leaving: Leaving{KeepsConfig: true},
				Disruption: disruption.None.String(), Actions: []Action{}, Items: []Item{},
			})
			continue
		}
		out.Pools = append(out.Pools, comparePoolOrNext(name, base, head, t))
		out.Pools = append(out.Pools, nodeChanges(name, base, head, t)...)
		out.own[name] = ownNodes(base.Pools[name], head.Pools[name])
	}
	out.Warnings, out.folder = newWarnings(base.Warnings, head.Warnings), head.Folder
	out.Overview = overviewOf(out)
	out.AvoidReboots = avoidRebootsOf(out, head.PolicyFile)
	out.Readers = compareEncryption(base.Encryption, head.Encryption)
	out.ClusterChanges = compareCluster(base, head)
	out.Undo, out.UndoCosts = undo(out), undoCosts(base, head, out.Pools)
	out.FileChanges = out.fileChanges(base, head)
	return out
}

// terms are the same for all pools.
type terms struct {
	differ    differ
	policy    disruption.Policy
	overrides disruption.Overrides
	// hide contents
	marks secretmask.Paths
	// of head
	decrypt func(format string, body []byte) ([]byte, error)
}

// comparePoolOrNext compares a removed pool with the one that gets its nodes.
func comparePoolOrNext(name string, base, head Side, t terms) PoolChange {
	from, to := base.Pools[name], head.Pools[name]
	t.marks = trustedMarks(base, name)
	next := head.Pools[nextPool]
	if from.Rendered == "" || to.Rendered != "" || next.Rendered == "" {
		out := comparePool(name, from, to, t)
		out.NewMarks, out.RemovedMarks = changedMarks(from, to, t.marks)
		out.NodeWrites = nodeWrites(from, to)
		out.NewlyUnreviewed, out.NotYetAllowed = newlyUnreviewed(name, base, head)
		return out
	}
	t.marks = trustedMarks(base, name, nextPool)
	out := comparePool(name, from, next, t)
	out.To, out.MovesTo = "", nextPool
	return out
}

func comparePool(name string, from, to Pool, t terms) PoolChange {
	out := PoolChange{
		Pool: name, From: from.Rendered, To: to.Rendered, Disruption: disruption.None.String(),
		Actions: []Action{}, Items: []Item{},
	}
	if from.Rendered == to.Rendered {
		return out
	}
	from.Config, to.Config = machineconfig.Flattened(from.Config), machineconfig.Flattened(to.Config)
	decision := disruption.Decide(from.Config, to.Config, t.policy)
	out.Disruption = decision.Disruption.String()
	out.Actions = actions(decision.Actions)
	sizes := from.Sizes.Join(to.Sizes)
	pairs := readItems(decision.Items, from.Config, to.Config, knownContent{
		Marked: t.marks, Sizes: sizes, Decrypt: t.decrypt,
	})
	for i, c := range decision.Items {
		at, attributes := placesOf(c.Change, from, to)
		diff, parts, hidden := t.differ.difference(pairs[i])
		if pairs[i].unread() {
			out.Unreadable = append(out.Unreadable, c.Name)
		}
		out.Items = append(out.Items, Item{
			Kind: string(c.Kind), Path: c.Name, Change: string(c.Verb), Parts: parts,
			Actions: actions(c.Actions), Effect: c.Effect, Why: c.Why, AvoidReboot: avoidance(c, from, to, t.policy),
			Origin: at, Origins: attributes, Content: Content{Diff: diff, Hidden: hidden},
		})
	}
	for removed, added := range renamesOf(decision.Items, pairs) {
		out.Items[removed].RenamedTo, out.Items[added].RenamedFrom = out.Items[added].Path, out.Items[removed].Path
	}
	out.Notices = newNotices(from.Notices, to.Notices)
	if from.Rendered == "" || to.Rendered == "" {
		return out // A new or removed pool has no running nodes of its own.
	}
	out.Fetches = downloadsBetween(from.Config, to.Config, sizes)
	for _, r := range disruption.Refuse(from.Config, to.Config, t.overrides) {
		out.Refused = append(out.Refused, r.Field+": "+r.Why)
	}
	for _, r := range disruption.CheckedOnNode(from.Config, to.Config) {
		text := r.Field + ": " + r.Why
		if r.Continues {
			text = r.Field + " " + r.Why
		}
		out.CheckedOnNode = append(out.CheckedOnNode, text)
	}
	for _, r := range disruption.NewNodesOnly(from.Config, to.Config) {
		out.NewNodesOnly = append(out.NewNodesOnly,
			r.Field+": "+strings.TrimPrefix(r.Why, disruption.NewNodesOnlyPrefix))
	}
	return out
}

func actions(in []disruption.Action) []Action {
	out := make([]Action, len(in))
	for i, a := range in {
		out[i] = Action{Type: string(a.Type), Service: a.Service}
	}
	return out
}

// placesOf returns the position of all changed attributes if it is one, or else that of the item and those of the
// attributes.
func placesOf(c disruption.Change, from, to Pool) (at string, attributes map[string]string) {
	at = originOf(c, from, to)
	if c.Verb != disruption.Changed || len(listOf(c.Kind, from.Config))+len(listOf(c.Kind, to.Config)) > 0 {
		return at, nil // For a list, at has the position of each changed value.
	}
	written := func(p Pool) []lineage.Attribute {
		if p.Lineage == nil {
			return nil
		}
		item, _ := p.Lineage(c.Kind, c.Name)
		return item.Attributes
	}
	was, attributes, places := written(from), map[string]string{}, map[string]bool{}
	for _, a := range written(to) {
		same := slices.ContainsFunc(was, func(o lineage.Attribute) bool {
			return unnumbered(o.Name) == unnumbered(a.Name) && o.Value == a.Value
		})
		if place := a.At.String(); !same && place != "" {
			attributes[a.Name], places[place] = place, true
		}
	}
	if len(places) > 1 {
		return at, attributes
	}
	for place := range places {
		at = place
	}
	return at, nil
}

// originOf returns where head sets the item, or base a removed one. A list has a position for each changed argument.
func originOf(c disruption.Change, from, to Pool) string {
	at := func(p Pool, name string) string {
		if p.Origin == nil {
			return ""
		}
		return p.Origin(c.Kind, name)
	}
	was, is := listOf(c.Kind, from.Config), listOf(c.Kind, to.Config)
	if len(was)+len(is) == 0 {
		if c.Verb == disruption.Removed {
			return at(from, c.Name)
		}
		return at(to, c.Name)
	}
	var places []string
	add := func(p Pool, names, others []string) {
		for _, name := range names {
			if place := at(p, name); place != "" && !slices.Contains(others, name) && !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
	}
	add(to, is, was)
	add(from, was, is)
	return strings.Join(places, ", ")
}

// unnumbered drops an attribute's index in a list, which a change of another item shifts.
func unnumbered(name string) string { return strings.TrimRight(name, "0123456789") }

// downloadsBetween returns what nodes with the old config download for the new one, in its order: not contents whose
// hash the old config has, nor those that it has at a path of the new one.
func downloadsBetween(from, to machineconfig.Config, sizes DownloadSizes) (out []Download) {
	have, wanted := hashesOf(from), machineconfig.RemoteFiles(to)
	files := map[string]ign.Resource{}
	for _, f := range machineconfig.Flattened(from).Ignition.Storage.Files {
		if len(f.Append) == 0 {
			files[f.Path] = f.Contents
		}
	}
	for _, r := range wanted {
		if old, known := files[r.Path]; known && machineconfig.SameContents(old,
			ign.Resource{Source: &r.URL, Verification: ign.Verification{Hash: &r.Hash}}) {
			have[r.Hash] = true
		}
	}
	for _, r := range wanted {
		if !have[r.Hash] {
			have[r.Hash] = true
			out = append(out, Download{
				Kind: "file", Path: r.Path, Source: machineconfig.ShownAddress(r.URL),
				Bytes: sizes.Of(r.Remote),
			})
		}
	}
	if image := to.OSImage(); image != "" && image != from.OSImage() {
		out = append(out, Download{Kind: ImageDownload, Source: image})
	}
	return out
}

func hashesOf(c machineconfig.Config) map[string]bool {
	all := map[string]bool{}
	for _, r := range machineconfig.RemoteFiles(c) {
		all[r.Hash] = true
	}
	return all
}

// Download is something that running nodes download before they are drained, unless they have it.
type Download struct {
	// Kind is file or os-image; others may follow.
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"`
	// Source is an address without its query, or the reference of an image.
	Source string `json:"source"`
	// Bytes is for a file of the content store, otherwise 0: a document has an address and a hash, and a review reads
	// nothing from the network.
	Bytes int64 `json:"bytes,omitempty"`
}

// ImageDownload is the Kind of an OS image. Hosts with rpm-ostree download it before the drain, other hosts after it.
const ImageDownload = "os-image"

// DownloadSizes are the sizes of files of the content store in bytes, by their hashes.
type DownloadSizes map[string]int64

// With returns the sizes with those of further files. It does not change the receiver, which several pools share.
func (s DownloadSizes) With(files []machineconfig.LargeFile) DownloadSizes {
	if len(files) == 0 {
		return s
	}
	all := s.Join(nil)
	for _, f := range files {
		all[f.Hash] = f.Size
	}
	return all
}

// Join returns the sizes of both. A hash decides the contents, so it has one size.
func (s DownloadSizes) Join(other DownloadSizes) DownloadSizes {
	all := DownloadSizes{}
	maps.Copy(all, s)
	maps.Copy(all, other)
	return all
}

// Of returns the size of a remote file; 0 if it is not known.
func (s DownloadSizes) Of(r machineconfig.Remote) int64 {
	if _, isStored := machineconfig.StoredHash(r.URL); !isStored {
		return 0
	}
	return s[r.Hash]
}

// nodeWrites is nil if they are small.
func nodeWrites(from, to Pool) *NodeWrites {
	if to.Nodes == nil || to.Nodes.Sizes == nil {
		return nil
	}
	var was map[string]int
	if from.Nodes != nil && from.Nodes.Sizes != nil {
		was = from.Nodes.Sizes()
	}
	var out NodeWrites
	for name, bytes := range to.Nodes.Sizes() {
		if _, has := was[name]; !has {
			out.Configs, out.Bytes = out.Configs+1, out.Bytes+bytes
		}
	}
	if out.Bytes < minNodeWrites {
		return nil
	}
	return &out
}

// newlyUnreviewed returns the patterns that only head has, and what of the pool's configs base does not allow: the
// change itself allows what its reviewer cannot read. Rendering reports patterns that cannot match.
func newlyUnreviewed(pool string, base, head Side) (patterns, refused []string) {
	allowed := base.unreviewed(pool)
	was, _ := secretmask.ParsePaths(allowed)
	is, _ := secretmask.ParsePaths(head.unreviewed(pool))
	patterns = without(is, was)
	if to := head.Pools[pool]; len(patterns) > 0 && to.NotAllowed != nil {
		refused = to.NotAllowed(allowed)
	}
	return patterns, refused
}

// changedMarks returns the marks that only one side has. A new pool has only new ones; a removed pool has none, because
// its contents go too.
func changedMarks(from, to Pool, trusted secretmask.Paths) (added, removed []string) {
	if to.Rendered != "" {
		added = without(to.Secrets, trusted)
	}
	if from.Rendered != "" && to.Rendered != "" {
		removed = without(from.Secrets, to.Secrets)
	}
	return added, removed
}

func newNotices(base, head []Notice) (out []Notice) {
	for _, n := range head {
		if !slices.ContainsFunc(base, func(o Notice) bool {
			return o.Rule == n.Rule && o.Kind == n.Kind && o.Path == n.Path && o.Message == n.Message
		}) {
			out = append(out, n)
		}
	}
	return out
}

// nodeChanges is about nodes of a pool that have configs of their own. Those whose changes are equal have one entry,
// such as the nodes with facts after a change of a document that all share.
func nodeChanges(name string, base, head Side, t terms) []PoolChange {
	from, to := base.Pools[name], head.Pools[name]
	if from.live || to.live || from.Nodes == nil && to.Nodes == nil || from.Rendered == "" || to.Rendered == "" {
		return nil
	}
	t.marks = trustedMarks(base, name)
	of := func(node string) PoolChange { return comparePool("", ofNode(from, node), ofNode(to, node), t) }
	var out []PoolChange
	at := map[string]int{}
	for _, same := range similarNodes(from, to) {
		change := PoolChange{}
		if first := same.nodes[0]; same.references {
			change = comparePool("", withReferences(from, first), withReferences(to, first), t)
		} else {
			change = of(first)
		}
		if change.Notices = nil; len(change.Items) == 0 && len(change.Refused) == 0 {
			continue
		}
		key := contentOf(change)
		if n, known := at[key]; known {
			out[n].Nodes = append(out[n].Nodes, same.nodes...)
			continue
		}
		at[key], change.Nodes = len(out), same.nodes
		out = append(out, change)
	}
	for i, change := range out {
		if len(change.Nodes) == 1 { // A reader sees the values of this node.
			out[i] = of(change.Nodes[0])
			out[i].Notices, out[i].Nodes = nil, change.Nodes
		}
		slices.Sort(out[i].Nodes)
		out[i].Pool = nodesText(name, out[i].Nodes)
	}
	return out
}

func ofNode(p Pool, node string) Pool {
	if p.Nodes == nil {
		return p
	}
	return withConfig(p, node, func() (render.Rendered, error) { return p.Nodes.Node(node) })
}

// withReferences puts references in place of a node's facts.
func withReferences(p Pool, node string) Pool {
	return withConfig(p, node, func() (render.Rendered, error) { return p.Nodes.References(node) })
}

// similarNodes groups the nodes whose configs differ.
func similarNodes(from, to Pool) []similar {
	was, is := from.Nodes.table(), to.Nodes.table()
	names := map[string]bool{}
	for _, table := range []machineconfig.NodeTable{was, is} {
		for node := range table.Nodes {
			names[node] = true
		}
	}
	isSame := from.Rendered == to.Rendered && reflect.DeepEqual(was.Shared, is.Shared) && !from.Nodes.isOpaque()
	var out []similar
	at := map[string]int{}
	for _, node := range slices.Sorted(maps.Keys(names)) {
		a, b := was.Nodes[node], is.Nodes[node]
		if isSame && reflect.DeepEqual(a, b) {
			continue
		}
		if from.Nodes == nil || to.Nodes == nil || from.Nodes.isOpaque() || !reflect.DeepEqual(a.Facts, b.Facts) {
			out = append(out, similar{nodes: []string{node}})
			continue
		}
		key, err := json.Marshal([]any{a.Documents, b.Documents, a.Facts != nil})
		if n, known := at[string(key)]; known && err == nil {
			out[n].nodes = append(out[n].nodes, node)
			continue
		}
		at[string(key)] = len(out)
		out = append(out, similar{nodes: []string{node}, references: true})
	}
	return out
}

// nodesText names nodes of a pool in place of the pool alone.
func nodesText(pool string, nodes []string) string {
	const few = 3
	switch {
	case len(nodes) == 1:
		return fmt.Sprintf("%s (node %s)", pool, nodes[0])
	case len(nodes) <= few:
		return fmt.Sprintf("%s (nodes %s)", pool, strings.Join(nodes, ", "))
	}
	return fmt.Sprintf("%s (%d nodes)", pool, len(nodes))
}

// contentOf is equal for equal changes of different nodes.
func contentOf(c PoolChange) string {
	c.From, c.To = "", ""
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Sprintf("%+v", c) // There is no error, because a review is printed as JSON.
	}
	return string(text)
}

func ownNodes(from, to Pool) map[string]bool {
	names := map[string]bool{}
	for _, side := range []*NodeSide{from.Nodes, to.Nodes} {
		for node := range side.table().Nodes {
			names[node] = true
		}
		if side != nil {
			maps.Copy(names, side.Others)
		}
	}
	return names
}

// newWarnings ignores line numbers.
func newWarnings(base, head []Warning) (out []Warning) {
	for _, w := range head {
		if !slices.ContainsFunc(base, func(o Warning) bool {
			return o.Rule == w.Rule && o.Message == w.Message && o.file == w.file
		}) {
			out = append(out, w)
		}
	}
	return out
}

func overviewOf(c Comparison) Overview {
	out := Overview{Warnings: c.Warnings}
	for _, sec := range c.Sections() {
		for _, it := range sec.Items {
			switch disruption.Verb(it.Change) {
			case disruption.Added:
				out.Counts.Add++
			case disruption.Removed:
				out.Counts.Remove++
			default:
				out.Counts.Change++
			}
			if it.Hidden {
				out.Hidden++
			}
		}
	}
	return out
}
