package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy"
)

// Defaults are a cluster's images, for pools whose MachineConfigs set none.
type Defaults struct {
	// OSImageURL is the default OS image, or "".
	OSImageURL string
	// ExtensionsImage is the default image of extensions, or "".
	ExtensionsImage string
}

// Rendered is the config of a pool. It is shared with the Renderer's cache: do not change it.
type Rendered struct {
	// Pool is the pool's name.
	Pool string
	// Name is rendered-<pool>-<hash of Spec>.
	Name string
	// Spec in canonical form.
	Spec mcfgv1.MachineConfigSpec
	// Config is Spec parsed.
	Config machineconfig.Config
	// Inputs are the names of the MachineConfigs in the order of merging, later ones winning.
	Inputs []string
	// Warnings are what a person should know and nothing is stopped by.
	Warnings []string

	winners map[entry]string
}

// Winner returns the name of the MachineConfig that set an entry last, or "" if the config has no such entry. A kernel
// argument or an extension is its own name; kinds of which there is one have the name "".
func (r Rendered) Winner(kind policy.ChangeKind, name string) string {
	return r.winners[entry{kind, name}]
}

// Merge renders a pool: it orders the MachineConfigs, validates each, merges them, validates the result and names it.
// The error joins every problem, each naming its MachineConfig.
func Merge(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	return new(Renderer).Merge(pool, mcs, d)
}

// input is one MachineConfig as merging needs it.
type input struct {
	name      string
	generated bool
	config    machineconfig.Config
}

// merge is the work behind Merge, for inputs that are valid and in order; all but the name.
func merge(pool string, inputs []input, d Defaults) (Rendered, error) {
	var f fold
	b := newBook()
	out := machineconfig.Config{HasIgnition: true, KernelType: "default", OSImageURL: d.OSImageURL, ExtensionsImage: d.ExtensionsImage}
	r := Rendered{Pool: pool}
	for _, in := range inputs {
		r.Inputs = append(r.Inputs, in.name)
		if in.config.HasIgnition {
			f.add(in.config.Ignition)
			b.ignition(in.name, in.config.Ignition)
		}
		addPlain(&out, in, b)
	}
	out.Ignition = f.config()
	out.Ignition.Ignition.Version = machineconfig.Version
	if bad := validateMerged(out, b); len(bad) > 0 {
		return Rendered{}, fmt.Errorf("merging the MachineConfigs of pool %s: %w", pool, errors.Join(bad...))
	}
	var err error
	if r.Spec, err = out.Spec(); err != nil {
		return Rendered{}, fmt.Errorf("rendering pool %s: %w", pool, err)
	}
	r.Config, r.winners = out, b.last
	r.Config.KernelArguments, r.Config.Extensions = r.Spec.KernelArguments, r.Spec.Extensions
	warning, err := guardSize(r)
	if err != nil {
		return Rendered{}, err
	}
	if warning != "" {
		r.Warnings = append(r.Warnings, warning)
	}
	return r, nil
}

// addPlain merges what is not Ignition's: FIPS is on if any asks for it, lists are put together with their repetitions,
// and of single values the last given wins.
func addPlain(out *machineconfig.Config, in input, b *book) {
	c := in.config
	out.KernelArguments = append(out.KernelArguments, c.KernelArguments...)
	out.Extensions = append(out.Extensions, c.Extensions...)
	for _, k := range machineconfig.SplitKargs(c.KernelArguments) {
		b.set(in.name, policy.KindKargs, k)
	}
	for _, e := range c.Extensions {
		b.set(in.name, policy.KindExtensions, e)
	}
	if c.FIPS {
		out.FIPS = true
		b.set(in.name, policy.KindFIPS, "")
	}
	if !defaultKernel(c.KernelType) {
		out.KernelType = c.KernelType
		b.set(in.name, policy.KindKernelType, "")
	}
	if in.generated {
		return // a generated config's images are those of the cluster at the time
	}
	if c.OSImageURL != "" {
		out.OSImageURL = c.OSImageURL
		b.set(in.name, policy.KindOSImage, "")
	}
	if c.ExtensionsImage != "" {
		out.ExtensionsImage = c.ExtensionsImage
	}
}

// validateMerged looks for what merging can break in configs that are each valid: entries that several of them set, and
// rules between entries.
func validateMerged(c machineconfig.Config, b *book) (bad []error) {
	contested := c
	i := &contested.Ignition
	i.Storage.Files = keep(c.Ignition.Storage.Files, policy.KindFile, b)
	i.Storage.Directories = keep(c.Ignition.Storage.Directories, policy.KindDirectory, b)
	i.Storage.Links = keep(c.Ignition.Storage.Links, policy.KindLink, b)
	i.Systemd.Units = keep(c.Ignition.Systemd.Units, policy.KindUnit, b)
	found := map[string]bool{}
	for _, err := range slices.Concat(machineconfig.Validate(contested), machineconfig.Check(contested), machineconfig.ValidateBetween(c)) {
		found[b.explain(err)] = true // the checks overlap
	}
	for _, text := range slices.Sorted(maps.Keys(found)) {
		bad = append(bad, errors.New(text))
	}
	if kernelDevel(c.Extensions) && !defaultKernel(c.KernelType) {
		bad = append(bad, fmt.Errorf("extension kernel-devel (of MachineConfig %s) needs the default kernel, not %s (of MachineConfig %s): remove one of them",
			b.last[entry{policy.KindExtensions, "kernel-devel"}], c.KernelType, b.last[entry{policy.KindKernelType, ""}]))
	}
	return bad
}

// keep returns the items that more than one input set.
func keep[T interface{ Key() string }](list []T, kind policy.ChangeKind, b *book) (contested []T) {
	for _, x := range list {
		if len(b.all[entry{kind, x.Key()}]) > 1 {
			contested = append(contested, x)
		}
	}
	return contested
}

// explain adds to a problem of the merged config who set the entry that it is about. The entry's index is left out: it
// counts in a list that nobody has.
func (b *book) explain(err error) string {
	text := err.Error()
	place, _, _ := strings.Cut(text, ":")
	list, rest, _ := strings.Cut(place, "[")
	_, rest, ok := strings.Cut(rest, "] ")
	if !ok {
		return text
	}
	text = list + " " + rest + text[len(place):]
	var about entry // the longest name that fits, for names may have blanks in them
	for e := range b.all {
		if kindLists[e.kind] == list && len(e.name) > len(about.name) && (rest == e.name || strings.HasPrefix(rest, e.name+" ")) {
			about = e
		}
	}
	if about.name == "" {
		return text
	}
	return text + " (set by MachineConfigs " + strings.Join(b.all[about], ", ") + ")"
}

// kindLists are the lists in which problems name entries.
var kindLists = map[policy.ChangeKind]string{
	policy.KindFile: "files", policy.KindDirectory: "directories", policy.KindLink: "links",
	policy.KindUnit: "units", policy.KindUser: "users", policy.KindGroup: "groups",
}
