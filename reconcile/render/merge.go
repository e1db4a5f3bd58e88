package render

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/coreos/ignition/v2/config/util"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile"
)

// Merge renders a pool: it orders the MachineConfigs, validates each, merges them, validates the result and names it.
// The error joins all problems, each with the name of its MachineConfig.
func Merge(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	inputs := make([]Input, len(mcs))
	for i, mc := range mcs {
		inputs[i] = Read(mc)
	}
	return mergeInputs(pool, inputs, d, Rendered{}, nil)
}

// Renderer renders pools. For each pool, a Renderer caches the last answer and the parsed MachineConfigs. If no
// MachineConfig has changed, a call only computes digests. If one MachineConfig has changed, the Renderer parses only
// this MachineConfig again. Pools share parsed MachineConfigs, and those with the same contents what comes of the
// merge. The zero value of Renderer is ready for use, and safe for concurrent use.
type Renderer struct {
	// Store has which MachineConfigs are valid, from earlier processes; nil for none. Set it before the first use.
	Store transpile.Store

	mu    sync.Mutex
	pools map[string]answer
}

// Merge returns the result of Merge. Callers share the result and must not change it.
func (r *Renderer) Merge(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	mcs = slices.SortedStableFunc(slices.Values(mcs), func(a, b *mcfgv1.MachineConfig) int {
		return strings.Compare(a.Name, b.Name)
	})
	digests := make([]digest, len(mcs))
	for i, mc := range mcs {
		digests[i] = digestOf(mc)
	}
	key := digestOfAll(mcs, digests, d)
	last, others := r.recall(pool)
	if last.inputs != nil && last.key == key {
		return last.rendered, last.err
	}
	now := answer{key: key, inputs: make(map[digest]Input, len(mcs))}
	inputs := make([]Input, len(mcs))
	for i, mc := range mcs {
		of := digests[i]
		in, ok := find(of, last, others)
		if !ok {
			in = r.read(mc, of)
		}
		in.Identity, in.of = Identify(mc), of
		inputs[i], now.inputs[of] = in, in
	}
	now.rendered, now.err = mergeInputs(pool, inputs, d, last.rendered, others)
	r.remember(pool, now)
	return now.rendered, now.err
}

// answer is the last answer for a pool. answer is immutable.
type answer struct {
	key      digest
	rendered Rendered
	err      error
	inputs   map[digest]Input
}

// find returns a parsed MachineConfig by its digest.
func find(of digest, last answer, others []answer) (in Input, ok bool) {
	if in, ok = last.inputs[of]; ok {
		return in, true
	}
	for _, a := range others {
		if in, ok = a.inputs[of]; ok {
			return in, true
		}
	}
	return in, false
}

// read is Read, but does not judge again what an earlier process found valid. The parameter of is its digest.
func (r *Renderer) read(mc *mcfgv1.MachineConfig, of digest) Input {
	if r.Store == nil || machineconfig.PoolOf(mc) != "" {
		return Read(mc)
	}
	name := "valid MachineConfig " + hex.EncodeToString(of[:])
	if _, valid := r.Store.Get(name); valid {
		if c, err := decode(mc.Spec); err == nil {
			return Input{Identity: Identify(mc), Config: c}
		}
	}
	in := Read(mc)
	if len(in.Problems) == 0 {
		r.Store.Put(name, nil)
	}
	return in
}

// recall returns the last answer for a pool, and those for all other pools.
func (r *Renderer) recall(pool string) (last answer, others []answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, other := range r.pools {
		if name != pool {
			others = append(others, other)
		}
	}
	return r.pools[pool], others
}

func (r *Renderer) remember(pool string, now answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pools == nil {
		r.pools = map[string]answer{}
	}
	r.pools[pool] = now
}

// Forget removes the cached answer of a deleted pool.
func (r *Renderer) Forget(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, pool)
}

// mergeInputs is Merge for parsed MachineConfigs, in any order. The configs of nodes are not merged again if their
// documents and the config of the pool are those of the earlier result, which may be the zero value. Others are the
// results for other pools.
func mergeInputs(pool string, inputs []Input, d Defaults, earlier Rendered, others []answer) (out Rendered, err error) {
	defer isolate(pool, &out, &err)
	inputs, table := withoutTables(pool, inputs)
	inputs = slices.SortedStableFunc(slices.Values(inputs), func(a, b Input) int {
		return compare(a.Worker, b.Worker, a.Name, b.Name)
	})
	if err := checkInputs(append(slices.Clip(inputs), table...)); err != nil {
		return Rendered{}, err
	}
	of := digestOfInputs(inputs, d)
	r, err := combine(pool, inputs, d, fromSameInputs(of, others))
	if err == nil {
		r.own.unreviewed, err = d.Unreviewed, checkReviewed(r, d.Unreviewed)
	}
	if err != nil {
		return r, err
	}
	if len(table) == 0 {
		r.inputs = of
		return r, nil
	}
	return withNodes(r, earlier, table[0], d.LargeFiles)
}

// isolate turns a panic into an error of one pool; the other pools keep their configs. It is for a defer statement.
func isolate(pool string, out *Rendered, err *error) {
	if p := recover(); p != nil {
		*out, *err = Rendered{}, fmt.Errorf("rendering pool %s: %w", pool, fault.NewPanic(p))
	}
}

// withoutTables separates the inputs of a pool from its table of nodes. A pool ignores the tables of other pools, such
// as that of worker.
func withoutTables(pool string, inputs []Input) (others, table []Input) {
	for _, in := range inputs {
		switch in.Table {
		case "":
			others = append(others, in)
		case pool:
			table = append(table, in)
		}
	}
	return others, table
}

// compare compares two MachineConfigs by their layer and their name.
func compare(aWorker, bWorker bool, a, b string) int {
	switch {
	case aWorker == bWorker:
		return cmp.Compare(a, b)
	case aWorker:
		return -1
	}
	return 1
}

// Order returns the MachineConfigs in the order of merging, in which later MachineConfigs override earlier
// MachineConfigs. First come the MachineConfigs of the role worker, by name, then all other MachineConfigs, by name. So
// a custom pool's 00-infra overrides the inherited 99-worker.
func Order(mcs []*mcfgv1.MachineConfig) []*mcfgv1.MachineConfig {
	return slices.SortedStableFunc(slices.Values(mcs), func(a, b *mcfgv1.MachineConfig) int {
		return compare(isWorker(a), isWorker(b), a.Name, b.Name)
	})
}

// checkInputs returns all problems of sorted inputs.
func checkInputs(inputs []Input) error {
	if len(inputs) == 0 {
		return errors.New(
			"no MachineConfigs are selected: label some for the pool, or change its machineConfigSelector")
	}
	count := map[string]int{}
	for _, in := range inputs {
		count[in.Name]++
	}
	var bad []error
	for _, in := range inputs {
		if !in.Labelled {
			bad = append(bad, fmt.Errorf("MachineConfig %s: it has no labels, so that no pool can mean it: label it "+
				"%s=<role>", in.Name, RoleLabel))
		}
		if count[in.Name] > 1 {
			bad = append(bad, fmt.Errorf("MachineConfig %s: there are two of this name: rename one", in.Name))
			delete(count, in.Name) // The entry is deleted so that checkInputs reports a duplicate only once.
		}
	}
	for _, in := range inputs {
		if err := blame(in.Name, in.Problems); err != nil {
			bad = append(bad, err)
		}
	}
	return errors.Join(bad...)
}

// blame joins the problems of one MachineConfig, each with its name; nil if there are none.
func blame(name string, bad machineconfig.Problems) error {
	named := make([]error, 0, len(bad))
	for _, b := range bad {
		named = append(named, fmt.Errorf("MachineConfig %s: %w", name, b))
	}
	return errors.Join(named...)
}

// fromSameInputs returns the config of another pool from these inputs, or the zero value. A config of which files went
// to the content store is none: how many go depends on the names in it.
func fromSameInputs(of digest, others []answer) Rendered {
	for _, a := range others {
		if a.rendered.inputs == of && len(a.rendered.Contents) == 0 {
			return a.rendered
		}
	}
	return Rendered{}
}

// combine merges valid inputs in the order in which they are given, validates the result and names it. If another pool
// has the same contents, they are valid, merged and named already: only what mentions the pool or a MachineConfig is
// different.
func combine(pool string, inputs []Input, d Defaults, same Rendered) (r Rendered, err error) {
	set := setters(inputs)
	if same.Name != "" {
		r, err = stored(pool, same.Config, same.Spec, inputs, d)
	} else {
		whole := mergedConfig(inputs, d)
		if bad := validateMerged(whole, set, &book{inputs: inputs}); len(bad) > 0 {
			return Rendered{}, fmt.Errorf("merging the MachineConfigs of pool %s: %w", pool, errors.Join(bad...))
		}
		r, err = written(pool, whole, inputs, d)
	}
	if err != nil {
		return Rendered{}, err
	}
	if r.Warnings, err = guardSize(r, d.LargeFiles); err != nil {
		return Rendered{}, err
	}
	r.Notices = notices(inputs, set, take(r.Config.Ignition))
	if same.Name != "" && len(r.Contents) == 0 {
		r.Name = "rendered-" + pool + strings.TrimPrefix(same.Name, "rendered-"+same.Pool)
	} else if r.Name, err = Name(pool, r.Spec); err != nil {
		return Rendered{}, err
	}
	return r, nil
}

func mergedConfig(inputs []Input, d Defaults) machineconfig.Config {
	whole := plainOf(inputs, d)
	whole.Ignition = mergeIgnition(inputs)
	return whole
}

// plainOf merges the fields outside Ignition. FIPS is on if any input sets FIPS. plainOf appends lists, with their
// repetitions. For single values, the last input counts.
func plainOf(inputs []Input, d Defaults) machineconfig.Config {
	out := machineconfig.Config{
		HasIgnition: true, KernelType: "default", OSImageURL: d.OSImageURL,
		ExtensionsImage: d.ExtensionsImage,
	}
	for _, in := range inputs {
		c := &in.Config
		out.KernelArguments = append(out.KernelArguments, c.KernelArguments...)
		out.Extensions = append(out.Extensions, c.Extensions...)
		out.FIPS = out.FIPS || c.FIPS
		if !defaultKernel(c.KernelType) {
			out.KernelType = c.KernelType
		}
		if in.Generated {
			continue // A generated MachineConfig has old images of the cluster, so plainOf ignores its images.
		}
		if c.OSImageURL != "" {
			out.OSImageURL = c.OSImageURL
		}
		if c.ExtensionsImage != "" {
			out.ExtensionsImage = c.ExtensionsImage
		}
	}
	return out
}

func defaultKernel(kernelType string) bool { return kernelType == "" || kernelType == "default" }

// mergeIgnition merges the Ignition of all inputs, in order.
func mergeIgnition(inputs []Input) ign.Config {
	var f fold
	for _, in := range inputs {
		if in.Config.HasIgnition {
			f.add(in.Config.Ignition)
		}
	}
	merged := f.lists().into(f.rest)
	merged.Ignition.Version = machineconfig.Version
	return merged
}

// written returns a merged config as a cluster stores it, without a name.
func written(pool string, whole machineconfig.Config, inputs []Input, d Defaults) (Rendered, error) {
	spec, err := whole.Spec()
	if err != nil {
		return Rendered{}, fmt.Errorf("rendering pool %s: %w", pool, err)
	}
	whole.KernelArguments, whole.Extensions = spec.KernelArguments, spec.Extensions
	return stored(pool, whole, spec, inputs, d)
}

// stored is written for a config whose spec is known.
func stored(pool string, whole machineconfig.Config, spec mcfgv1.MachineConfigSpec, inputs []Input, d Defaults,
) (Rendered, error) {
	r := Rendered{Pool: pool, Spec: spec, Config: whole, book: &book{inputs: inputs}}
	for _, in := range inputs {
		r.Inputs = append(r.Inputs, in.Name)
	}
	if d.LargeFiles {
		return fit(r)
	}
	return r, nil
}

// Name returns the name of a rendered config: rendered-<pool>-<hash of the spec>. The name depends only on the content.
// So the same content from another commit, or from the original machine-config-operator, has the same name. The spec
// must be in canonical form.
func Name(pool string, spec mcfgv1.MachineConfigSpec) (string, error) {
	return machineconfig.RenderedName(pool, spec)
}

// validateMerged validates the parts of a merged config that may be invalid although all inputs are valid: items that
// several inputs set, fields outside the lists, rules between entries, and parts that every node would refuse.
func validateMerged(c machineconfig.Config, set setBy, b *book) (bad []error) {
	contested := set.contested(c)
	found := map[string]bool{}
	for _, p := range slices.Concat(machineconfig.Validate(contested), machineconfig.Check(contested),
		validateBetween(c), validateNested(c)) {
		found[b.explain(p)] = true // found is a set, because several checks may return the same error.
	}
	if len(found) == 0 {
		for _, r := range disruption.Invalid(c) {
			found[b.refused(r)] = true
		}
	}
	for _, text := range slices.Sorted(maps.Keys(found)) {
		bad = append(bad, errors.New(text))
	}
	if kernelDevel(c.Extensions) && !defaultKernel(c.KernelType) {
		bad = append(bad, fmt.Errorf("extension kernel-devel (of MachineConfig %s) needs the default kernel, not %s "+
			"(of MachineConfig %s): remove one of them",
			b.last(entry{disruption.KindExtensions, "kernel-devel"}), c.KernelType,
			b.last(entry{disruption.KindKernelType, ""})))
	}
	return bad
}

// validateNested validates the merge of the nested configs with all other configs.
func validateNested(c machineconfig.Config) machineconfig.Problems {
	if names := c.Ignition.Ignition.Config; names.Replace.Source == nil && len(names.Merge) == 0 {
		return nil
	}
	return machineconfig.Check(c)
}

// validateBetween checks Ignition's rules between entries. validateBetween skips the check if no rule can be violated,
// because the check compares every path with every link.
func validateBetween(c machineconfig.Config) machineconfig.Problems {
	st := c.Ignition.Storage
	if len(st.Links) == 0 {
		return nil
	}
	links := make(map[string]bool, len(st.Links))
	for _, l := range st.Links {
		if l.Target == nil || *l.Target == "" || l.Hard != nil && *l.Hard {
			return machineconfig.ValidateBetween(c)
		}
		links[l.Path] = true
	}
	for _, paths := range [][]string{keys(nil, st.Files), keys(nil, st.Directories), keys(nil, st.Links)} {
		for _, p := range paths {
			for i := range len(p) {
				if p[i] == '/' && links[p[:i]] {
					return machineconfig.ValidateBetween(c)
				}
			}
		}
	}
	return nil
}

func kernelDevel(extensions []string) bool { return slices.Contains(extensions, "kernel-devel") }

// fold merges configs one after another with Ignition's own Merge, in time linear in their size. Merging each config
// with the whole result so far would take quadratic time. Merging pairs of merged configs would be wrong, because Merge
// is not associative. A config affects only entries of the result that have the same keys as its own entries. So fold
// merges only these entries, puts them back in their places, and appends new entries.
type fold struct {
	// rest is the part of the config outside the lists below.
	rest        ign.Config
	files       ordered[ign.File]
	directories ordered[ign.Directory]
	links       ordered[ign.Link]
	units       ordered[ign.Unit]
	users       ordered[ign.PasswdUser]
	groups      ordered[ign.PasswdGroup]
}

// add merges one more config.
func (f *fold) add(c ign.Config) {
	c = detach(c)
	st := c.Storage
	// Files, directories and links share their keys: the paths.
	nodes := keys(keys(keys(nil, st.Files), st.Directories), st.Links)
	known := f.known(nodes)
	part, child := f.rest, withoutLists(c)
	files := f.files.meet(nodes, known, st.Files)
	directories := f.directories.meet(nodes, known, st.Directories)
	links := f.links.meet(nodes, known, st.Links)
	units := f.units.meet(keys(nil, c.Systemd.Units), nil, c.Systemd.Units)
	users := f.users.meet(keys(nil, c.Passwd.Users), nil, c.Passwd.Users)
	groups := f.groups.meet(keys(nil, c.Passwd.Groups), nil, c.Passwd.Groups)
	part.Storage.Files, child.Storage.Files = files.ours, files.theirs
	part.Storage.Directories, child.Storage.Directories = directories.ours, directories.theirs
	part.Storage.Links, child.Storage.Links = links.ours, links.theirs
	part.Systemd.Units, child.Systemd.Units = units.ours, units.theirs
	part.Passwd.Users, child.Passwd.Users = users.ours, users.theirs
	part.Passwd.Groups, child.Passwd.Groups = groups.ours, groups.theirs
	merged := part
	if !reflect.DeepEqual(child, ign.Config{Ignition: ign.Ignition{Version: part.Ignition.Version}}) {
		merged = ign.Merge(part, child)
		oneOwner(merged.Storage, child.Storage)
	}
	f.files.put(files, merged.Storage.Files, st.Files)
	f.directories.put(directories, merged.Storage.Directories, st.Directories)
	f.links.put(links, merged.Storage.Links, st.Links)
	f.units.put(units, merged.Systemd.Units, c.Systemd.Units)
	f.users.put(users, merged.Passwd.Users, c.Passwd.Users)
	f.groups.put(groups, merged.Passwd.Groups, c.Passwd.Groups)
	f.rest = withoutLists(merged)
}

func withoutLists(c ign.Config) ign.Config { return lists{}.into(c) }

// known reports for each path whether the result has it as a file, directory or link.
func (f *fold) known(paths []string) map[string]bool {
	taken := map[string]bool{}
	for _, p := range paths {
		taken[p] = f.files.has(p) || f.directories.has(p) || f.links.has(p)
	}
	return taken
}

// lists returns the lists of the result so far.
func (f *fold) lists() lists {
	return lists{
		attach(f.files.list()), f.directories.list(), f.links.list(), f.units.list(), f.users.list(),
		f.groups.list(),
	}
}

// detach explicitly sets contents to "not compressed" or "not verified" if the config sets neither compression nor
// hash. Without this, Merge would combine the new contents with the compression and hash of the replaced contents, and
// no machine could boot the result. detach copies the lists, because Merge may return them and the caller owns the
// config.
func detach(c ign.Config) ign.Config {
	files := make([]ign.File, len(c.Storage.Files))
	for i, f := range c.Storage.Files {
		if f.Contents.Source != nil {
			if f.Contents.Compression == nil {
				f.Contents.Compression = util.StrToPtr("")
			}
			if f.Contents.Verification.Hash == nil {
				f.Contents.Verification.Hash = util.StrToPtr("")
			}
		}
		files[i] = f
	}
	c.Storage.Files = files
	c.Storage.Directories = slices.Clone(c.Storage.Directories)
	c.Storage.Links = slices.Clone(c.Storage.Links)
	return c
}

// attach reverses detach. attach also sets overwrite for a file with contents, so that the file may replace an existing
// file. Ignition refuses overwrite for a file without contents.
func attach(files []ign.File) []ign.File {
	for i := range files {
		f := &files[i]
		if util.NilOrEmpty(f.Contents.Compression) {
			f.Contents.Compression = nil
		}
		if util.NilOrEmpty(f.Contents.Verification.Hash) {
			f.Contents.Verification.Hash = nil
		}
		if f.Overwrite == nil && f.Contents.Source != nil {
			f.Overwrite = util.BoolToPtr(true)
		}
	}
	return files
}

// oneOwner lets an owner by number replace an owner by name, and an owner by name replace one by number. Merge would
// keep both, and Ignition refuses an owner with both.
func oneOwner(merged, child ign.Storage) {
	set := map[string]ign.Node{}
	for _, n := range child.Files {
		set[n.Path] = n.Node
	}
	for _, n := range child.Directories {
		set[n.Path] = n.Node
	}
	for _, n := range child.Links {
		set[n.Path] = n.Node
	}
	for i := range merged.Files {
		ownerOf(&merged.Files[i].Node, set)
	}
	for i := range merged.Directories {
		ownerOf(&merged.Directories[i].Node, set)
	}
	for i := range merged.Links {
		ownerOf(&merged.Links[i].Node, set)
	}
}

func ownerOf(n *ign.Node, set map[string]ign.Node) {
	child := set[n.Path]
	n.User.ID, n.User.Name = later(n.User.ID, n.User.Name, child.User.ID, child.User.Name)
	n.Group.ID, n.Group.Name = later(n.Group.ID, n.Group.Name, child.Group.ID, child.Group.Name)
}

func later(id *int, name *string, childID *int, childName *string) (*int, *string) {
	switch {
	case childID != nil && childName == nil:
		return id, nil
	case childName != nil && childID == nil:
		return nil, name
	}
	return id, name
}

// ordered is a list of items with unique keys, in which each item keeps its position. The zero value is an empty list.
type ordered[T util.Keyed] struct {
	items []T
	dead  []bool
	place map[string]int
}

// meeting has the items of one list that both a config and the result so far contain.
type meeting[T util.Keyed] struct {
	// ours are the items of the result whose keys the config also has. theirs are the items of the config whose keys
	// the result also has.
	ours, theirs []T
}

// meet returns the items of the list that have the given keys, and the items of another list whose keys are known. If
// several lists share their keys, the parameter known says which keys are known; otherwise the keys of the list itself
// are known.
func (o *ordered[T]) meet(keys []string, known map[string]bool, list []T) (m meeting[T]) {
	for _, k := range keys {
		if i, ok := o.place[k]; ok {
			m.ours = append(m.ours, o.items[i])
		}
	}
	for _, x := range list {
		if known[x.Key()] || known == nil && o.has(x.Key()) {
			m.theirs = append(m.theirs, x)
		}
	}
	return m
}

func (o *ordered[T]) has(key string) bool {
	_, ok := o.place[key]
	return ok
}

// put adds the list of a config. For each item, put uses the merged item if there is one, and otherwise the config's
// item. Known items replace those in their places, new items are appended in the config's order, and items that the
// merge dropped are removed.
func (o *ordered[T]) put(m meeting[T], merged, list []T) {
	if o.place == nil {
		o.place = map[string]int{}
	}
	byKey := make(map[string]T, len(merged))
	for _, x := range merged {
		byKey[x.Key()] = x
	}
	for _, x := range m.ours {
		if k := x.Key(); !contains(byKey, k) {
			o.dead[o.place[k]] = true
			delete(o.place, k)
		}
	}
	for _, x := range list {
		k := x.Key()
		if contains(byKey, k) {
			x = byKey[k]
		}
		if i, ok := o.place[k]; ok {
			o.items[i] = x
			continue
		}
		o.place[k] = len(o.items)
		o.items = append(o.items, x)
		o.dead = append(o.dead, false)
	}
}

func contains[T any](m map[string]T, key string) bool {
	_, ok := m[key]
	return ok
}

func (o *ordered[T]) list() (all []T) {
	for i, x := range o.items {
		if !o.dead[i] {
			all = append(all, x)
		}
	}
	return all
}
