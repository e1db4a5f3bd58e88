package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/review"

	"github.com/bunsen-os/bunsen/reconcile/drain"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

type ref struct{ pool, config string }

// pair are two configs to compare: nodes in the pool of the second change from the first.
type pair struct {
	from, to ref
	// that the forecast is for; negative for all that the pool has now
	nodes int
}

// sides have names for users.
type sides struct {
	base, head string
	pairs      []pair
}

// compare compares rendered configs under the cluster's present disruption policy, and hides what either side marks as
// secret. The notes say which facts are not known.
func (s DetailSession) compare(ctx context.Context, f *fleet.Fleet, what sides,
	now time.Time,
) (review.Comparison, []string, error) {
	rules, note, err := readRules(ctx, s, now)
	if err != nil {
		return review.Comparison{}, nil, err
	}
	var notes []string
	if note != "" {
		notes = append(notes, note)
	}
	p, err := disruption.FromSpec(rules.Spec.NodeDisruptionPolicy)
	if err != nil {
		notes = append(notes, fmt.Sprintf("reading MachineConfiguration cluster: %v; the forecast uses the "+
			"default policy", err))
		p = disruption.Default()
	}
	marks, err := marksOf(f.Pools, rules)
	if err != nil {
		return review.Comparison{}, notes, err
	}
	base := review.Side{Name: what.base, Pools: map[string]review.Pool{}, Policy: p, Marks: marks}
	head := review.Side{
		Name: what.head, Pools: map[string]review.Pool{}, Policy: p, Overrides: disruption.OverridesOf(rules),
	}
	if rules.Name != "" {
		head.PolicyFile = review.PolicyKind + " " + rules.Name
	}
	facts := review.Facts{Pools: map[string]review.PoolFacts{}}
	var errs []error
	for _, x := range what.pairs {
		of, err := s.pools(ctx, x, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		name, from, to := x.to.pool, of.from, of.to
		if of.unread > 0 {
			notes = append(notes, unreadNote(name, of.unread))
		}
		marks[name] = slices.Concat(marks[name], to.Secrets, marks[x.from.pool])
		base.Pools[name], head.Pools[name] = from, to
		if v := f.PoolByName[name]; v != nil {
			facts.Pools[name] = poolFacts(f, v, x.nodes)
		}
	}
	if len(errs) > 0 {
		return review.Comparison{}, notes, errors.Join(errs...)
	}
	key := fmt.Sprintf("compare/%q/%q/%s/%v/%v", what.base, what.head, rules.ResourceVersion, marks, what.pairs)
	found, err := cached(s.Cache, key, lasts(now, configAge), func() (result[review.Comparison], error) {
		c := review.Compare(base, head)
		return result[review.Comparison]{c, sizeOf(c)}, nil
	})
	return found.WithFacts(facts), notes, err
}

func unreadNote(pool string, nodes int) string {
	return fmt.Sprintf("In pool %s, %s with configs of their own change too. This page compares the configs of %d, "+
		"and its forecast is for these and for the nodes without configs of their own; `bunsen diff` in a clone of "+
		"the repository compares all", pool, fleet.Count(nodes, "more node"), maxChangedNodes)
}

// sizeOf estimates a size in bytes.
func sizeOf(c review.Comparison) int {
	size := 1 << 10
	for _, p := range c.Pools {
		for i := range p.Items {
			size += 512 + len(p.Items[i].Path) + len(p.Items[i].Diff)
		}
	}
	return size
}

// poolFacts returns the facts about a pool for a forecast: its nodes, of which a rollout had the given number, or all
// if negative.
func poolFacts(f *fleet.Fleet, v *fleet.Pool, nodes int) review.PoolFacts {
	names, alone := make([]string, len(v.Rows)), []string(nil)
	for i := range v.Rows {
		names[i] = v.Rows[i].Name
		if drain.IsAlone(f.Nodes, names[i]) {
			alone = append(alone, names[i])
		}
	}
	most := v.Object.Spec.MaxUnavailable
	if of := v.Facts.Care.Pace.MaxUnavailable; of != nil {
		most = of
	}
	// The controller reports an invalid limit, and the forecast uses the default.
	facts, _ := review.FactsOf(v.Object, names, most)
	if nodes < 0 || nodes == len(names) {
		facts.Alone = alone
		return facts
	}
	facts.Nodes = nodes
	facts.MaxUnavailable, _ = poolstate.MaxUnavailable(v.Object.Name, most, nodes)
	return facts
}

// readRules returns zero for the default policy.
func readRules(ctx context.Context, s DetailSession, now time.Time) (*operatorv1.MachineConfiguration, string, error) {
	rules, err := cached(s.Cache, "rules", lasts(now, reportAge), func() (result[*operatorv1.MachineConfiguration],
		error,
	) {
		mc := &operatorv1.MachineConfiguration{}
		err := s.Reader().Get(ctx, client.ObjectKey{Name: "cluster"}, mc)
		return result[*operatorv1.MachineConfiguration]{mc, 8 << 10}, err
	})
	none := &operatorv1.MachineConfiguration{}
	switch note := deniedNote(err, "MachineConfigurations", "what the cluster's own disruption policy changes",
		viewerRole); {
	case note != "":
		return none, note, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return none, "", nil
	case err != nil:
		return none, "", fmt.Errorf("reading MachineConfiguration cluster: %w", err)
	}
	return rules, "", nil
}

// marksOf reads the marks of secret contents of the cluster's objects.
func marksOf(pools []mcfgv1.MachineConfigPool, rules *operatorv1.MachineConfiguration) (review.Marks, error) {
	marks := review.Marks{}
	var errs []error
	for i := range pools {
		errs = append(errs, marks.Add(review.PoolKind, pools[i].Name, pools[i].Annotations))
	}
	errs = append(errs, marks.Add(review.PolicyKind, rules.Name, rules.Annotations))
	return marks, errors.Join(errs...)
}
