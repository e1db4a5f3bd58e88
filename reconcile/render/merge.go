package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Defaults are what a cluster has for its pools: images, if their MachineConfigs set none, and a content store.
type Defaults struct {
	// OSImageURL is the default OS image, or "".
	OSImageURL string
	// ExtensionsImage is the default image of extensions, or "".
	ExtensionsImage string
	// Unreviewed are the paths that may have contents that no reviewer can read, as the pool's annotation
	// v1alpha1.UnreviewedPathsAnnotation lists them.
	Unreviewed string
	// LargeFiles is true if machines can read files that are too large for a MachineConfig from the content store.
	// Otherwise a config that does not fit into an object is an error.
	LargeFiles bool
}

// Check returns why the default images do not decide what nodes run, each with the flag that sets it.
func (d Defaults) Check() error {
	var bad []error
	for _, image := range []struct{ flag, reference string }{
		{"os-image", d.OSImageURL}, {"extensions-image", d.ExtensionsImage},
	} {
		if err := machineconfig.CheckImageFlag(image.reference); err != nil {
			bad = append(bad, fmt.Errorf("--%s: %w", image.flag, err))
		}
	}
	return errors.Join(bad...)
}

// Rendered is the config of a pool. Rendered is shared, so callers must not change it.
type Rendered struct {
	// Pool is the pool's name.
	Pool string
	// Name is rendered-<pool>-<hash of Spec>. If nodes have configs of their own, it is the machineconfig.TargetName of
	// Nodes.
	Name string
	// Nodes are the configs of the nodes, if any has its own.
	Nodes v1alpha1.NodeConfigs
	// VariantOf is the config of the pool from which the config of single nodes was merged; empty for the config of a
	// pool.
	VariantOf string
	// Spec is the spec in canonical form. It is that of the nodes without a config of their own.
	Spec mcfgv1.MachineConfigSpec
	// Config is the parsed Spec.
	Config machineconfig.Config
	// Contents are the files that this merge moved to the content store, because the config would not fit into an
	// object. Files that the inputs have there are not in the list.
	Contents []machineconfig.LargeFile
	// Inputs are the names of the MachineConfigs in the order of merging. Later inputs override earlier inputs.
	Inputs []string
	// Warnings are texts for users about problems that do not prevent the render.
	Warnings []string
	// Notices are the items that several MachineConfigs set differently, so that the order of merging decides. Notices
	// are not errors.
	Notices []Notice

	book *book
	own  ownConfigs
}

// Winner returns the name of the MachineConfig that set an entry last, or "" if the config has no such entry. The name
// of a kernel argument or an extension is its text. Kinds with only one entry have the name "".
func (r Rendered) Winner(kind disruption.ChangeKind, name string) string {
	if r.book == nil {
		return ""
	}
	return r.book.last(entry{kind, name})
}

// Layers returns the inputs in the order of merging. The inputs are shared, so callers must not change them.
func (r Rendered) Layers() []Input {
	if r.book == nil {
		return nil
	}
	return r.book.inputs
}

// ImagesWithoutDigest returns which images of the config have no digest, each with its MachineConfig. They come from
// MachineConfigs that users created through the API: they stay valid, because the nodes of existing clusters need them.
func (r Rendered) ImagesWithoutDigest() (texts []string) {
	system, extensions := r.Name, r.Name
	for _, in := range r.Layers() {
		if in.Generated {
			continue
		}
		if in.Config.OSImageURL != "" {
			system = in.Name
		}
		if in.Config.ExtensionsImage != "" {
			extensions = in.Name
		}
	}
	for _, image := range []struct {
		from   string
		config machineconfig.Config
	}{
		{system, machineconfig.Config{OSImageURL: r.Config.OSImageURL}},
		{extensions, machineconfig.Config{ExtensionsImage: r.Config.ExtensionsImage}},
	} {
		for _, err := range machineconfig.CheckImages(image.config) {
			texts = append(texts, "MachineConfig "+image.from+": "+err.Error())
		}
	}
	return texts
}

// Merge renders a pool: it orders the MachineConfigs, validates each, merges them, validates the result and names it.
// The error joins all problems, each with the name of its MachineConfig.
func Merge(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	inputs := make([]Input, len(mcs))
	for i, mc := range mcs {
		inputs[i] = Read(mc)
	}
	return MergeInputs(pool, inputs, d)
}

// MergeInputs does the same as Merge for parsed MachineConfigs. The inputs may be in any order.
func MergeInputs(pool string, inputs []Input, d Defaults) (Rendered, error) {
	return MergeAfter(Rendered{}, pool, inputs, d)
}

// MergeAfter is MergeInputs that uses the result of an earlier merge. The configs of nodes are not merged again if
// their documents and the config of the pool are the same as before. The earlier result may be the zero value.
func MergeAfter(earlier Rendered, pool string, inputs []Input, d Defaults) (out Rendered, err error) {
	defer isolate(pool, &out, &err)
	inputs, table := withoutTables(pool, inputs)
	inputs = slices.SortedStableFunc(slices.Values(inputs), func(a, b Input) int {
		return compare(a.Worker, b.Worker, a.Name, b.Name)
	})
	if err := checkInputs(append(slices.Clip(inputs), table...)); err != nil {
		return Rendered{}, err
	}
	r, err := mergeSorted(pool, inputs, d)
	if err == nil {
		r.own.unreviewed, err = d.Unreviewed, checkReviewed(r, d.Unreviewed)
	}
	if err != nil || len(table) == 0 {
		return r, err
	}
	return withNodes(r, earlier, table[0], d.LargeFiles)
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

// isolate turns a panic into an error of one pool; the other pools keep their configs. It is for a defer statement.
func isolate(pool string, out *Rendered, err *error) {
	if p := recover(); p != nil {
		*out, *err = Rendered{}, fmt.Errorf("rendering pool %s: %w", pool, fault.NewPanic(p))
	}
}

// mergeSorted merges valid inputs in the order in which they are given.
func mergeSorted(pool string, inputs []Input, d Defaults) (Rendered, error) {
	whole := plainOf(inputs, d)
	whole.Ignition = mergeIgnition(inputs)
	b, set := &book{inputs: inputs}, setters(inputs)
	if bad := validateMerged(whole, set, b); len(bad) > 0 {
		return Rendered{}, fmt.Errorf("merging the MachineConfigs of pool %s: %w", pool, errors.Join(bad...))
	}
	spec, err := whole.Spec()
	if err != nil {
		return Rendered{}, fmt.Errorf("rendering pool %s: %w", pool, err)
	}
	r := Rendered{Pool: pool, Spec: spec, Config: whole, book: b}
	for _, in := range inputs {
		r.Inputs = append(r.Inputs, in.Name)
	}
	r.Config.KernelArguments, r.Config.Extensions = spec.KernelArguments, spec.Extensions
	if d.LargeFiles {
		r, err = fit(r)
	}
	if err != nil {
		return Rendered{}, err
	}
	if r.Warnings, err = guardSize(r, d.LargeFiles); err != nil {
		return Rendered{}, err
	}
	r.Notices = notices(inputs, set, take(whole.Ignition))
	if r.Name, err = Name(pool, r.Spec); err != nil {
		return Rendered{}, err
	}
	return r, nil
}

// validateMerged validates the parts of a merged config that may be invalid although all inputs are valid: items that
// several inputs set, fields outside the lists, rules between entries, and parts that every node would refuse.
func validateMerged(c machineconfig.Config, set setBy, b *book) (bad []error) {
	contested := set.contested(c)
	found := map[string]bool{}
	for _, err := range slices.Concat(machineconfig.Validate(contested), machineconfig.Check(contested),
		validateBetween(c), validateNested(c)) {
		found[b.explain(err)] = true // found is a set, because several checks may return the same error.
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

// setters returns the items that more than one input sets.
func setters(inputs []Input) setBy {
	all := setBy{}
	for i, in := range inputs {
		keys := take(in.Config.Ignition).keys()
		for list, of := range keys {
			for _, k := range of {
				at := item{listTable[list].space, k}
				all[at] = append(all[at], i)
			}
		}
	}
	for at, by := range all {
		if len(by) < 2 {
			delete(all, at)
		}
	}
	return all
}

// notices returns all notices of a merge: by list and name, then kernel arguments, then the other settings. An item
// that several inputs set is in the list of its final kind.
func notices(inputs []Input, set setBy, merged lists) (out []Notice) {
	statements := set.statements(inputs)
	for list, keys := range set.only(merged).keys() {
		for _, key := range slices.Sorted(slices.Values(keys)) {
			at := item{listTable[list].space, key}
			out = append(out, itemNotices(inputs, listTable[list].kind, key,
				amongInputs(set[at], clashesOfItem(statements[at])))...)
		}
	}
	for _, c := range kargClashes(inputs) {
		out = append(out, alone(inputs, disruption.KindKargs, c.attribute, c))
	}
	for _, c := range settingClashes(inputs) {
		out = append(out, alone(inputs, disruption.ChangeKind(c.attribute), "", c))
	}
	return out
}

func settingClashes(inputs []Input) []clash {
	all := make([]said, len(inputs))
	for i, in := range inputs {
		if c := &in.Config; c.OSImageURL != "" && !in.Generated {
			all[i].add(RuleSameSetting, string(disruption.KindOSImage), c.OSImageURL)
		}
		if c := &in.Config; !defaultKernel(c.KernelType) {
			all[i].add(RuleSameSetting, string(disruption.KindKernelType), c.KernelType)
		}
	}
	return clashesOf(all)
}

func kargClashes(inputs []Input) []clash {
	all := make([]said, len(inputs))
	for i, in := range inputs {
		values := map[string]string{}
		for _, k := range machineconfig.SplitKargs(in.Config.KernelArguments) {
			key, value, _ := strings.Cut(k, "=")
			if !slices.Contains(repeated, key) && !strings.HasPrefix(key, "rd.") && !strings.HasSuffix(key, ".dyndbg") {
				values[key] = value // If an input repeats an argument, the last value of the input counts.
			}
		}
		for key, value := range values {
			all[i].add(RuleSameKarg, key, value)
		}
	}
	return clashesOf(all)
}

// itemNotices returns the notices about one item, one for each rule.
func itemNotices(inputs []Input, kind disruption.ChangeKind, name string, clashes []clash) (out []Notice) {
	byRule := map[string][]clash{}
	for _, c := range clashes {
		byRule[c.rule] = append(byRule[c.rule], c)
	}
	for _, rule := range slices.Sorted(maps.Keys(byRule)) {
		out = append(out, notice(inputs, kind, name, byRule[rule]))
	}
	return out
}

// clashesOfItem returns the attributes of an item on which its setters disagree. If a path has several kinds,
// clashesOfItem returns only the clash of kinds.
func clashesOfItem(all []said) []clash {
	found := clashesOf(all)
	for i, c := range found {
		switch {
		case c.attribute == kindAttribute:
			return found[i : i+1]
		// The input that masks the unit came first, and its mask stays in effect.
		case c.attribute == maskAttribute && c.last == "used":
			return append(found[:i:i], found[i+1:]...)
		}
	}
	return found
}

// amongInputs converts the indexes in the clashes of an item: from indexes among the inputs that set the item, which
// setters lists, to indexes among all inputs.
func amongInputs(setters []int, clashes []clash) []clash {
	out := slices.Clone(clashes)
	for i := range out {
		out[i].by = nil
		for _, place := range clashes[i].by {
			out[i].by = append(out[i].by, setters[place])
		}
	}
	return out
}

// alone returns the notice for a clash of an item without attributes, which has only a value.
func alone(inputs []Input, kind disruption.ChangeKind, name string, c clash) Notice {
	c.attribute = "value"
	return notice(inputs, kind, name, []clash{c})
}

// guardSize refuses a spec that is too large to store, and warns about a large spec. The texts name the largest entries
// and their inputs. With largeFiles, the files that can move have left the spec.
func guardSize(r Rendered, largeFiles bool) (warnings []string, err error) {
	size, inputs, err := measure(r)
	if err != nil {
		return nil, err
	}
	if inputs+metadata > maxAnnotations {
		return nil, fmt.Errorf("the rendered config of pool %s consists of %d MachineConfigs. Their list needs %d "+
			"bytes, and an annotation can have %d: combine documents", r.Pool, len(r.Inputs), inputs,
			maxAnnotations-metadata)
	}
	switch {
	case size > MaxSize:
		err = fmt.Errorf("the rendered config of pool %s has %d bytes with its metadata, and a cluster stores at most "+
			"%d. Units, and files with secrets or facts, cannot go to the content store. Make these parts smaller: %s",
			r.Pool, size, MaxSize, largest(r))
		if !largeFiles {
			err = fmt.Errorf("%w. For other files: %w", err, machineconfig.ErrNoContentStore)
		}
		return nil, err
	case size > WarnSize:
		return []string{fmt.Sprintf("the rendered config of pool %s has %d bytes with its metadata, %d %% of the "+
			"most that a cluster stores; the largest are %s", r.Pool, size, size*100/MaxSize, largest(r))}, nil
	}
	return nil, nil
}

// fit moves files of a config that is too large for an object to the content store.
func fit(r Rendered) (Rendered, error) {
	size, _, err := measure(r)
	if err != nil {
		return r, err
	}
	config, moved, err := machineconfig.MoveLargeFiles(r.Config, size)
	if err != nil {
		return r, fmt.Errorf("rendering pool %s: %w", r.Pool, err)
	}
	if len(moved) == 0 {
		return r, nil
	}
	r.Config, r.Contents = config, moved
	if r.Spec, err = config.Spec(); err != nil {
		return r, fmt.Errorf("rendering pool %s: %w", r.Pool, err)
	}
	return r, nil
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
