package machineconfig

import (
	"errors"
	"fmt"
	"slices"

	v35 "github.com/coreos/ignition/v2/config/v3_5"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// maxNesting is how deep configs may stand in configs; people need one or two.
const maxNesting = 10

// Flat puts what ignition.config.merge and ignition.config.replace bring into the config itself, as a machine does that
// boots it: a replacement stands for the whole config, and merged configs win over it, later ones over earlier ones. What a
// rendered config is named by stays the config as written; Flat is for those who ask what a node has of it. A config that
// names one that is not inline is returned as it is: only the network knows it. The error says which of them is no config,
// or why they do not fit together.
func Flat(c Config) (Config, error) {
	if !nests(c.Ignition) {
		return c, nil
	}
	flat, whole, err := flatten(c.Ignition, 0)
	if err != nil || !whole {
		return c, err
	}
	out := c
	out.Ignition = flat
	if bad := Validate(out); len(bad) > 0 {
		return c, fmt.Errorf("merging what ignition.config names: %w", errors.Join(bad...))
	}
	return out, nil
}

func nests(c ign.Config) bool {
	return c.Ignition.Config.Replace.Source != nil || len(c.Ignition.Config.Merge) > 0
}

// flatten returns the config with all that it names; whole is false where something is not inline.
func flatten(c ign.Config, depth int) (flat ign.Config, whole bool, err error) {
	if depth > maxNesting {
		return c, false, fmt.Errorf("ignition.config names configs that name configs, more than %d deep: put them into one", maxNesting)
	}
	if r := c.Ignition.Config.Replace; r.Source != nil {
		return child("ignition.config.replace", r, depth)
	}
	children := slices.Clone(c.Ignition.Config.Merge)
	c.Ignition.Config = ign.IgnitionConfig{}
	for i, r := range children {
		more, whole, err := child(fmt.Sprintf("ignition.config.merge[%d]", i), r, depth)
		if err != nil || !whole {
			return c, false, err
		}
		c = v35.Merge(c, more)
	}
	return c, true, nil
}

// child reads a config that another one names.
func child(place string, r ign.Resource, depth int) (flat ign.Config, whole bool, err error) {
	raw, err := Contents(r)
	if errors.Is(err, ErrNotInline) {
		return ign.Config{}, false, nil
	}
	if err == nil {
		err = verify(r, raw)
	}
	var c ign.Config
	if err == nil {
		c, err = parseIgnition(raw)
	}
	if err == nil {
		flat, whole, err = flatten(c, depth+1)
	}
	if err != nil {
		return flat, false, fmt.Errorf("%s: %w", place, err)
	}
	return flat, whole, nil
}
