package machineconfig

import (
	"errors"
	"fmt"
	"slices"

	v35 "github.com/coreos/ignition/v2/config/v3_5"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// The bounds of what a config may merge. People need one or two small configs; more is a mistake or an attack.
const (
	// maxNesting is how deep configs may stand in configs.
	maxNesting = 10
	// maxNested is how many configs one config may merge in all.
	maxNested = 100
	// maxNestedBytes is how large these configs may be together, after they are decompressed.
	maxNestedBytes = 8 << 20
)

// Flat returns the config with the configs that ignition.config.merge and ignition.config.replace name, as a machine that
// boots has it: a replacement stands for the whole config, and merged configs win over the config that merges them, later
// ones over earlier ones. All code that looks inside a config uses the flat form. A rendered config is still named by its
// content as it is written.
//
// Flat never fetches anything: a source that is not a data: URL is an error that wraps ErrNotInline. So is a config that
// cannot be decoded or read, that does not match its hash, or that exceeds the bounds. The error joins one error for each
// problem; each begins with its place, such as `ignition.config.merge[0]: `.
func Flat(c Config) (Config, error) {
	if !nests(c.Ignition) {
		return c, nil
	}
	flat, err := new(flattener).config(c.Ignition, 0)
	if err != nil {
		return c, err
	}
	out := c
	out.Ignition = flat
	if bad := Validate(out); len(bad) > 0 {
		return c, at("ignition.config: merging the configs that it names", errors.Join(bad...))
	}
	return out, nil
}

// Flattened returns the flat form, or the config as it is written where it has no flat form. It is for configs that were
// checked before, and for configs in force, which a node has to leave whatever they say.
func Flattened(c Config) Config {
	flat, err := Flat(c)
	if err != nil {
		return c
	}
	return flat
}

// Nested is a config that another config names.
type Nested struct {
	// Place is where the other config names it: `ignition.config.merge[0]` or `ignition.config.replace`.
	Place string
	// Path is the same place as origins name it: `$.ignition.config.merge.0.source`.
	Path string
	// Config is the flat form of the nested config.
	Config Config
	// Replaces reports that it stands for the whole config that names it.
	Replaces bool
}

// NestedConfigs returns the configs that a config names, in the order in which they are merged. A config that is replaced
// merges none. The error is Flat's.
func NestedConfigs(c Config) ([]Nested, error) {
	all, err := named(c.Ignition)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(n Nested) bool { return n.Replaces }); i >= 0 {
		return all[i : i+1], nil
	}
	return all, nil
}

// named reads all configs that a config names, also those that a replacement makes void.
func named(c ign.Config) (all []Nested, err error) {
	var f flattener
	var bad []error
	read := func(place, path string, r ign.Resource, replaces bool) {
		flat, err := f.child(place, r, 0)
		all = append(all, Nested{place, "$.ignition.config." + path + ".source", Config{Ignition: flat, HasIgnition: true}, replaces})
		bad = append(bad, err)
	}
	for i, r := range c.Ignition.Config.Merge {
		read(mergePlace(i), fmt.Sprintf("merge.%d", i), r, false)
	}
	if r := c.Ignition.Config.Replace; r.Source != nil {
		read("ignition.config.replace", "replace", r, true)
	}
	var errs []error
	for _, err := range bad {
		if err != nil {
			errs = append(errs, split(err)...)
		}
	}
	return all, errors.Join(errs...)
}

// nests reports that a config names others.
func nests(c ign.Config) bool {
	return c.Ignition.Config.Replace.Source != nil || len(c.Ignition.Config.Merge) > 0
}

func mergePlace(i int) string { return fmt.Sprintf("ignition.config.merge[%d]", i) }

// flattener resolves one config and counts what it costs.
type flattener struct{ configs, bytes int }

func (f *flattener) config(c ign.Config, depth int) (ign.Config, error) {
	if depth > maxNesting {
		return c, fmt.Errorf("configs name configs more than %d levels deep: write them as one config", maxNesting)
	}
	if r := c.Ignition.Config.Replace; r.Source != nil {
		return f.child("ignition.config.replace", r, depth)
	}
	children := slices.Clone(c.Ignition.Config.Merge)
	c.Ignition.Config = ign.IgnitionConfig{}
	var bad []error
	for i, r := range children {
		more, err := f.child(mergePlace(i), r, depth)
		if bad = append(bad, err); errors.Join(bad...) == nil {
			c = v35.Merge(c, more)
		}
	}
	return c, errors.Join(bad...)
}

// child reads and resolves a config that another one names at a place.
func (f *flattener) child(place string, r ign.Resource, depth int) (ign.Config, error) {
	if f.configs++; f.configs > maxNested {
		if f.configs > maxNested+1 {
			return ign.Config{}, nil // it is reported once
		}
		return ign.Config{}, fmt.Errorf("%s: the config names more than %d configs: write them as one config", place, maxNested)
	}
	raw, err := contents(r, maxNestedBytes-f.bytes)
	if err == nil {
		err = verify(r, raw)
	}
	f.bytes += len(raw)
	var c ign.Config
	if err == nil {
		c, err = parseIgnition(raw)
	}
	if err == nil {
		c, err = f.config(c, depth+1)
	}
	return c, at(place, err)
}

// at puts a place before each of the errors that are joined in err.
func at(place string, err error) error {
	if err == nil {
		return nil
	}
	var all []error
	for _, e := range split(err) {
		all = append(all, fmt.Errorf("%s: %w", place, e))
	}
	return errors.Join(all...)
}

// split takes joined errors apart, also those that were joined of joined ones.
func split(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, split(e)...)
	}
	return all
}
