package machineconfig

import (
	"errors"
	"fmt"
	"slices"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// The limits for merged configs. Users need one or two small configs; more is a mistake or an attack.
const (
	// maxNesting is the maximum depth of configs inside configs.
	maxNesting = 10
	// maxNested is the maximum number of configs that one config merges, directly or indirectly.
	maxNested = 100
	// maxNestedBytes is the maximum size of all configs that one config merges, together and after decompression.
	maxNestedBytes = 8 << 20
)

// Flat returns the config as a booting machine uses it: together with the configs that ignition.config.merge and
// ignition.config.replace name. A config in ignition.config.replace replaces the whole config. Merged configs override
// the config that merges them, and later configs override earlier configs. All code that looks inside a config uses the
// flat form. The name of a rendered config still depends on the config as written.
//
// Flat never fetches anything: for a source that is not a data: URL it returns an error that wraps ErrNotInline. Flat
// also returns an error for a config that is invalid, does not match its hash, or exceeds the limits. The error joins
// one error for each problem. Each text begins with the place of the problem, such as `ignition.config.merge[0]: `.
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
		at := spot{path: "$.ignition.config", place: "ignition.config: merging the configs that it names"}
		return c, nestedProblems(at, bad).Err()
	}
	return out, nil
}

// Flattened returns the flat form, or the config as written if it has no flat form. Flattened is for configs that
// passed Check before, and for configs in force: a node must be able to replace an invalid config in force.
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
	// Path is Place in the form that origins have: `$.ignition.config.merge.0.source`.
	Path string
	// Config is the flat form of the nested config.
	Config Config
	// Replaces reports whether this config replaces the whole config that names it.
	Replaces bool
}

// NestedConfigs returns the configs that a config names, in the order in which they are merged. If another config
// replaces the config, NestedConfigs leaves out the configs that it merges. The errors are those of Flat.
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

// named reads all configs that a config names, also if ignition.config.replace makes some of them useless.
func named(c ign.Config) (all []Nested, err error) {
	var f flattener
	var bad []error
	read := func(at spot, r ign.Resource, replaces bool) {
		flat, err := f.child(at, r, 0)
		all = append(all, Nested{
			at.place, at.below("source").path, Config{Ignition: flat, HasIgnition: true}, replaces,
		})
		bad = append(bad, err)
	}
	for i, r := range c.Ignition.Config.Merge {
		read(ofIgnition("config.merge").at(i), r, false)
	}
	if r := c.Ignition.Config.Replace; r.Source != nil {
		read(ofIgnition("config.replace"), r, true)
	}
	return all, ProblemsOf(errors.Join(bad...)).Err()
}

// nests reports whether a config names other configs.
func nests(c ign.Config) bool {
	return c.Ignition.Config.Replace.Source != nil || len(c.Ignition.Config.Merge) > 0
}

// flattener resolves one config, and counts the nested configs and their bytes.
type flattener struct{ configs, bytes int }

func (f *flattener) config(c ign.Config, depth int) (ign.Config, error) {
	if depth > maxNesting {
		return c, fmt.Errorf("configs name configs more than %d levels deep: write them as one config", maxNesting)
	}
	if r := c.Ignition.Config.Replace; r.Source != nil {
		return f.child(ofIgnition("config.replace"), r, depth)
	}
	children := slices.Clone(c.Ignition.Config.Merge)
	c.Ignition.Config = ign.IgnitionConfig{}
	var bad []error
	for i, r := range children {
		more, err := f.child(ofIgnition("config.merge").at(i), r, depth)
		if bad = append(bad, err); errors.Join(bad...) == nil {
			c = ign.Merge(c, more)
		}
	}
	return c, errors.Join(bad...)
}

// child reads and resolves the config of a resource at a spot of another config.
func (f *flattener) child(at spot, r ign.Resource, depth int) (ign.Config, error) {
	if f.configs++; f.configs > maxNested {
		if f.configs > maxNested+1 {
			return ign.Config{}, nil // child reports a nested config's problem once.
		}
		return ign.Config{}, Problem{Path: at.below("source").path, Place: at.place, Err: fmt.Errorf("the config "+
			"names more than %d configs: write them as one config", maxNested)}
	}
	raw, err := contents(r, maxNestedBytes-f.bytes)
	if err == nil {
		err = verify(r, raw)
	}
	f.bytes += len(raw)
	at = resourcePart(at, err)
	var c ign.Config
	if err == nil {
		c, err = parseIgnition(raw)
	}
	if err == nil {
		c, err = f.config(c, depth+1)
	}
	return c, nestedProblems(at, ProblemsOf(err)).Err()
}

// nestedProblems returns problems of a config that another one names at a spot, as problems of the other one.
func nestedProblems(at spot, problems Problems) (all Problems) {
	for _, p := range problems {
		all = append(all, Problem{Path: at.path, Place: at.place, Err: p, Nested: true})
	}
	return all
}
