package render

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/kinds"
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

// For returns the defaults for a pool with these annotations.
func (d Defaults) For(annotations map[string]string) Defaults {
	d.Unreviewed = annotations[v1alpha1.UnreviewedPathsAnnotation]
	return d
}

// ForExisting returns the defaults for a config that has been rendered before, and is not judged again.
func (d Defaults) ForExisting() Defaults {
	d.Unreviewed = allUnreviewed
	return d
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
	// inputs is the digestOfInputs; zero if nodes have configs of their own.
	inputs digest
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
	return mergeInputs(pool, inputs, d, Rendered{}, nil)
}

// Input is one MachineConfig in the form that a merge needs. Input depends only on the Identity and the spec, and is
// immutable.
type Input struct {
	Identity
	// Config is the parsed spec.
	Config machineconfig.Config
	// Nodes is the table of a MachineConfig that is about single nodes.
	Nodes machineconfig.NodeTable
	// Problems are the problems of the spec itself; empty if it is valid.
	Problems machineconfig.Problems

	// of is the digest of the contents; zero without a Renderer.
	of digest
}

// Identity has the metadata of a MachineConfig that a merge uses.
type Identity struct {
	// Name is the name of the MachineConfig.
	Name string
	// Worker reports whether the MachineConfig has the role worker, which other pools inherit.
	Worker bool
	// Generated reports whether a controller of the cluster wrote the MachineConfig. The cluster's images then
	// override its images.
	Generated bool
	// Labelled reports whether the MachineConfig has labels. Without labels, no pool can select it.
	Labelled bool
	// Table is the pool whose nodes the MachineConfig is about; empty for the config of a whole pool.
	Table string
}

// Read parses and checks one MachineConfig.
func Read(mc *mcfgv1.MachineConfig) Input {
	in := Input{Identity: Identify(mc)}
	in.Config, in.Problems = judge(mc.Spec)
	if in.Table != "" && len(in.Problems) == 0 {
		var err error
		if in.Nodes, err = machineconfig.ReadNodeTable(in.Table, in.Config); err != nil {
			in.Problems = append(in.Problems, machineconfig.ProblemsOf(err)...)
		}
	}
	return in
}

// judge parses and validates the spec of a MachineConfig.
func judge(spec mcfgv1.MachineConfigSpec) (machineconfig.Config, machineconfig.Problems) {
	var bad machineconfig.Problems
	spec, err := kinds.UpgradeSpec(spec)
	if err != nil {
		return machineconfig.Config{}, machineconfig.ProblemsOf(err)
	}
	c, err := machineconfig.Parse(spec)
	if err != nil {
		bad = append(bad, machineconfig.ProblemsOf(err)...)
	}
	bad = append(bad, machineconfig.Check(c)...)
	bad = append(bad, machineconfig.CheckSystem(spec.KernelType, spec.Extensions)...)
	return c, bad
}

// decode reads what judge has judged.
func decode(spec mcfgv1.MachineConfigSpec) (machineconfig.Config, error) {
	spec, err := kinds.UpgradeSpec(spec)
	if err != nil {
		return machineconfig.Config{}, err
	}
	return machineconfig.Decode(spec)
}

// Identify reads the metadata of a MachineConfig.
func Identify(mc *mcfgv1.MachineConfig) Identity {
	_, generated := mc.Annotations[generatedBy]
	return Identity{
		Name: mc.Name, Worker: isWorker(mc), Generated: generated, Labelled: len(mc.Labels) > 0,
		Table: machineconfig.PoolOf(mc),
	}
}

// RoleLabel is the label with the role of a MachineConfig.
const RoleLabel = "machineconfiguration.openshift.io/role"

// generatedBy marks a MachineConfig that a controller wrote, whose images the cluster's images override.
const generatedBy = "machineconfiguration.openshift.io/generated-by-controller-version"

func isWorker(mc *mcfgv1.MachineConfig) bool { return mc.Labels[RoleLabel] == "worker" }

func defaultKernel(kernelType string) bool { return kernelType == "" || kernelType == "default" }

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

// Name returns the name of a rendered config: rendered-<pool>-<hash of the spec>. The name depends only on the content.
// So the same content from another commit, or from the original machine-config-operator, has the same name. The spec
// must be in canonical form.
func Name(pool string, spec mcfgv1.MachineConfigSpec) (string, error) {
	return machineconfig.RenderedName(pool, spec)
}
