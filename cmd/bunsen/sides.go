package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
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

// compare renders both sides; the policy is head's, since that is what will be in force when head is rolled out.
func (c comparing) compare(ctx context.Context, base, head string) (review.Comparison, error) {
	facts, err := factsOf(c.nodes)
	if err != nil {
		return review.Comparison{}, invalid(err)
	}
	memory := remembering(c.defaults)
	var from, to compared
	if !c.running {
		if from, err = c.side(ctx, memory, base); err != nil {
			return review.Comparison{}, fmt.Errorf("rendering %s: %w\nname an earlier base, such as the last commit that was applied", base, err)
		}
	}
	if to, err = c.side(ctx, memory, head); err != nil {
		return review.Comparison{}, fmt.Errorf("rendering %s: %w", head, err)
	}
	if c.running {
		if from, facts, err = c.fromCluster(ctx, memory, &to, facts); err != nil {
			return review.Comparison{}, err
		}
	}
	if c.policyFile != "" {
		if to.policy, to.Overrides, err = policyFrom(c.policyFile); err != nil {
			return review.Comparison{}, invalid(err)
		}
	}
	out := review.Compare(from.Side, to.Side, to.policy)
	out.Policy = review.ComparePolicies(from.policy, to.policy)
	return out.WithFacts(facts), nil
}

// compared is a side with the policy that it brings.
type compared struct {
	review.Side
	policy policy.Policy
	result rendition
}

// side renders a directory or a revision.
func (c comparing) side(ctx context.Context, memory *review.Renderings, name string) (compared, error) {
	tree, done, err := c.at.open(ctx, name)
	defer done()
	if err != nil {
		return compared{}, invalid(err)
	}
	r, err := renderWith(memory, tree)
	if err != nil {
		return compared{}, err
	}
	out := compared{Side: r.rendering.Side(name), result: r}
	if out.Commit, err = c.commit(ctx, tree); err != nil {
		return compared{}, err
	}
	if out.policy, err = review.PolicyOf(r.result); err != nil {
		return compared{}, invalid(fmt.Errorf("reading the disruption policy: %w", err))
	}
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
