package render

import (
	"errors"
	"fmt"
	"slices"

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
	// Notices are what MachineConfigs set more than once, which the order of merging decides. They are no errors.
	Notices []Notice

	book *book
}

// Winner returns the name of the MachineConfig that set an entry last, or "" if the config has no such entry. A kernel
// argument or an extension is its own name; kinds of which there is one have the name "".
func (r Rendered) Winner(kind policy.ChangeKind, name string) string {
	if r.book == nil {
		return ""
	}
	return r.book.last(entry{kind, name})
}

// Layer is one input as merging took it.
type Layer struct {
	// Name of the MachineConfig.
	Name string
	// Config is its spec, parsed and checked. It is shared with the Renderer's cache: do not change it.
	Config machineconfig.Config
	// Generated tells that a controller of the cluster wrote it, so that its images do not count.
	Generated bool
}

// Layers are the inputs in the order of merging.
func (r Rendered) Layers() []Layer {
	if r.book == nil {
		return nil
	}
	out := make([]Layer, len(r.book.inputs))
	for i, in := range r.book.inputs {
		out[i] = Layer{in.name, in.config, in.generated}
	}
	return out
}

// Merge renders a pool: it orders the MachineConfigs, validates each, merges them, validates the result and names it.
// The error joins every problem, each naming its MachineConfig.
func Merge(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	return new(Renderer).Merge(pool, mcs, d)
}

// merge does the work behind Merge for inputs that are valid and in order. It leaves behind what the next call may use
// again, and takes it from the last call.
func (m *memory) merge(pool string, inputs []input, last *memory) error {
	m.contests = findContests(inputs)
	fresh, err := m.contests.settle(inputs, last.contests)
	if err != nil {
		return fmt.Errorf("rendering pool %s: %w", pool, err)
	}
	m.foldRest(inputs, last)
	all, texts, err := gatherAll(inputs, m.contests)
	if err != nil {
		return fmt.Errorf("rendering pool %s: %w", pool, err)
	}
	rest := plainOf(inputs, m.defaults)
	rest.Ignition = m.rest
	b := &book{inputs: inputs}
	whole := rest
	whole.Ignition = all.into(rest.Ignition)
	if bad := validateMerged(whole, fresh, b); len(bad) > 0 {
		return fmt.Errorf("merging the MachineConfigs of pool %s: %w", pool, errors.Join(bad...))
	}
	doc := document{texts: texts}
	hashed, err := doc.finish(rest)
	if err != nil {
		return fmt.Errorf("rendering pool %s: %w", pool, err)
	}
	r := Rendered{Pool: pool, Spec: doc.spec, Config: whole, book: b}
	for _, in := range inputs {
		r.Inputs = append(r.Inputs, in.name)
	}
	r.Config.KernelArguments, r.Config.Extensions = r.Spec.KernelArguments, r.Spec.Extensions
	if r.Warnings, err = guardSize(r, &doc, m.limit); err != nil {
		return err
	}
	r.Notices = notices(inputs, m.contests)
	r.Name = nameOf(pool, hashed)
	m.rendered = r
	return nil
}

// foldRest merges what is beside the lists, of the few inputs that have such.
func (m *memory) foldRest(inputs []input, last *memory) {
	for _, in := range inputs {
		if in.config.HasIgnition && !in.plain {
			m.restOf = append(m.restOf, in.fragment)
		}
	}
	if m.rest = last.rest; !slices.Equal(m.restOf, last.restOf) {
		var f fold
		for i, fragment := range m.restOf {
			f.add(i, withoutLists(fragment.config.Ignition))
		}
		m.rest = f.rest
	}
	m.rest.Ignition.Version = machineconfig.Version
}

// plainOf merges what is not Ignition's: FIPS is on if any asks for it, lists are put together with their repetitions,
// and of single values the last given wins.
func plainOf(inputs []input, d Defaults) machineconfig.Config {
	out := machineconfig.Config{HasIgnition: true, KernelType: "default", OSImageURL: d.OSImageURL, ExtensionsImage: d.ExtensionsImage}
	for _, in := range inputs {
		c := &in.config
		out.KernelArguments = append(out.KernelArguments, c.KernelArguments...)
		out.Extensions = append(out.Extensions, c.Extensions...)
		out.FIPS = out.FIPS || c.FIPS
		if !defaultKernel(c.KernelType) {
			out.KernelType = c.KernelType
		}
		if in.generated {
			continue // a generated config's images are those of the cluster at the time
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
