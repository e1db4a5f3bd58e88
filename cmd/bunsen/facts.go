package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/review"
)

// factsOf reads `pool=nodes` and `pool=nodes/at-once`, such as worker=40 and worker=40/4. How many may be away at once is 0
// where it is not given.
func factsOf(flags []string) (review.Facts, error) {
	facts := review.Facts{Pools: map[string]review.PoolFacts{}}
	var errs []error
	for _, f := range flags {
		pool, numbers, ok := strings.Cut(f, "=")
		count, atOnce, limited := strings.Cut(numbers, "/")
		nodes, err := strconv.Atoi(count)
		most := 0
		if limited && err == nil {
			most, err = strconv.Atoi(atOnce)
		}
		if !ok || pool == "" || err != nil || nodes < 0 || limited && most < 1 {
			errs = append(errs, fmt.Errorf("--nodes %q: want POOL=NODES or POOL=NODES/AT-ONCE, such as worker=40 or worker=40/4", f))
			continue
		}
		facts.Pools[pool] = review.PoolFacts{Nodes: nodes, MaxUnavailable: most}
	}
	return facts, errors.Join(errs...)
}

// policyFrom reads a MachineConfiguration from a file.
func policyFrom(file string) (policy.Policy, policy.Overrides, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return policy.Policy{}, policy.Overrides{}, fmt.Errorf("reading the disruption policy: %w", err)
	}
	var mc operatorv1.MachineConfiguration
	if err := yaml.UnmarshalStrict(data, &mc); err != nil {
		return policy.Policy{}, policy.Overrides{}, fmt.Errorf("reading the disruption policy %s: %w", file, err)
	}
	if mc.Kind != "MachineConfiguration" {
		return policy.Policy{}, policy.Overrides{}, fmt.Errorf("reading the disruption policy %s: it is a %q, not a MachineConfiguration", file, mc.Kind)
	}
	p, err := policy.FromSpec(mc.Spec.NodeDisruptionPolicy)
	if err != nil {
		return policy.Policy{}, policy.Overrides{}, fmt.Errorf("reading the disruption policy %s: %w", file, err)
	}
	return p, policy.OverridesOf(&mc), nil
}
