package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/transpile"
)

// comparing is what diff and comment compare, and by what.
type comparing struct {
	at place
	// policyFile is a MachineConfiguration to judge by, instead of the one in head's cluster/.
	policyFile string
	// nodes are given facts, `pool=40`.
	nodes []string
	// running compares with what runs in a cluster.
	running bool
	cluster target
	// source names the GitSource that follows the repository, where the cluster has several.
	source string
	// defaults are the cluster's images.
	defaults render.Defaults
}

// unrendered tells which sides could not be rendered; the other one is nil.
type unrendered struct{ base, head error }

// Error names each side.
func (u *unrendered) Error() string { return errors.Join(u.base, u.head).Error() }

// Unwrap returns the errors of the sides.
func (u *unrendered) Unwrap() []error { return []error{u.base, u.head} }

// compare renders both sides; the policy is head's, since that is what will be in force when head is rolled out.
func (c comparing) compare(ctx context.Context, base, head string) (review.Comparison, error) {
	facts, err := factsOf(c.nodes)
	if err != nil {
		return review.Comparison{}, invalid(err)
	}
	memory := remembering(c.defaults)
	var from, to compared
	var failed unrendered
	if !c.running {
		from, failed.base = c.read(ctx, memory, base)
	}
	if to, failed.head = c.read(ctx, memory, head); failed == (unrendered{}) {
		was, is := memory.Pair(from.result, to.result)
		failed = unrendered{from.rendered(was), to.rendered(is)}
	}
	if failed.base != nil {
		failed.base = fmt.Errorf("rendering %s: %w", base, failed.base)
	}
	if errors.Is(failed.base, errNotValid) {
		failed.base = fmt.Errorf("%w\nname an earlier base, such as the last commit that was applied", failed.base)
	}
	if failed.head != nil {
		failed.head = fmt.Errorf("rendering %s: %w", head, failed.head)
	}
	if failed != (unrendered{}) {
		return review.Comparison{}, &failed
	}
	if c.running {
		if from, facts, err = c.fromCluster(ctx, memory, &to, facts); err != nil {
			return review.Comparison{}, err
		}
	}
	return c.judged(from, to, facts)
}

// judged compares two sides that are rendered.
func (c comparing) judged(from, to compared, facts review.Facts) (review.Comparison, error) {
	for _, pool := range slices.Sorted(maps.Keys(facts.Pools)) {
		_, was := from.Pools[pool]
		if _, is := to.Pools[pool]; !was && !is {
			return review.Comparison{}, invalid(fmt.Errorf("--nodes %s: neither side has such a pool; head has: %s", pool, strings.Join(slices.Sorted(maps.Keys(to.Pools)), ", ")))
		}
	}
	for i := range to.pools {
		p := &to.pools[i]
		known, ok := facts.Pools[p.Name]
		if !ok || known.MaxUnavailable > 0 {
			continue
		}
		var err error
		if known.MaxUnavailable, err = rollout.MaxUnavailable(p.Name, p.Spec.MaxUnavailable, known.Nodes); err != nil {
			return review.Comparison{}, invalid(fmt.Errorf("reading MachineConfigPool %s: %w", p.Name, err))
		}
		facts.Pools[p.Name] = known
	}
	if c.policyFile != "" {
		var err error
		if to.policy, to.Overrides, err = policyFrom(c.policyFile); err != nil {
			return review.Comparison{}, invalid(err)
		}
		to.PolicyFile = c.policyFile
		from.policy = to.policy // it stands for both: that it is another one than the repository's is no change
	}
	out := review.Compare(from.Side, to.Side, to.policy)
	out = out.WithCluster(review.ComparePolicies(from.policy, to.policy), review.ComparePools(from.pools, to.pools), review.CompareObjects(from.objects, to.objects))
	return out.WithFacts(facts), nil
}

// compared is a side with the policy that it brings.
type compared struct {
	review.Side
	policy policy.Policy
	// pools are the MachineConfigPools that the side declares.
	pools []mcfgv1.MachineConfigPool
	// objects are those of cluster/.
	objects []transpile.ClusterObject
	result  transpile.Result
}

// rendered takes over what the side's pools render to.
func (c *compared) rendered(r review.Rendering) error {
	if err := checked(c.result, r); err != nil {
		return err
	}
	read := c.Side
	c.Side = r.Side(read.Name)
	c.Commit, c.Folder = read.Commit, read.Folder
	return nil
}

// read transpiles a directory or a revision.
func (c comparing) read(ctx context.Context, memory *review.Renderings, name string) (compared, error) {
	tree, done, err := c.at.open(ctx, name)
	defer done()
	if err != nil {
		return compared{}, invalid(err)
	}
	res, err := memory.Transpiler.FragmentsUntil(tree, ctx.Err)
	if err != nil {
		return compared{}, invalid(err)
	}
	out := compared{Side: review.Side{Name: name, Folder: c.at.folder()}, result: res}
	if err := checked(out.result, review.Rendering{}); err != nil {
		return compared{}, err
	}
	if out.Commit, err = c.commit(ctx, tree); err != nil {
		return compared{}, err
	}
	if out.policy, err = review.PolicyOf(out.result); err != nil {
		return compared{}, invalid(fmt.Errorf("reading the disruption policy: %w", err))
	}
	if out.pools, err = review.PoolsOf(out.result); err != nil {
		return compared{}, invalid(err)
	}
	out.objects = out.result.Cluster
	return out, nil
}

// commit is what a review says of a tree's commit; nil for a directory.
func (c comparing) commit(ctx context.Context, tree source.Tree) (*review.Commit, error) {
	if tree.Commit.Hash == "" {
		return nil, nil
	}
	history, err := git.OpenHistory(ctx, git.At{Repository: c.at.repo, Revision: tree.Commit.Hash})
	if err != nil {
		return nil, invalid(err)
	}
	parents, err := history.Parents(ctx)
	if err != nil {
		return nil, invalid(err)
	}
	return &review.Commit{
		Hash: tree.Commit.Hash, Subject: tree.Commit.Subject, Author: tree.Commit.Author,
		Time: tree.Commit.Time.UTC().Format(time.RFC3339), Parents: parents,
	}, nil
}
