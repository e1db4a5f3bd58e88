package main

import (
	"fmt"

	"github.com/bunsen-os/bunsen/bench/corpus"
)

// shape is a kind of repository.
type shape struct {
	name, explained string
	documents       corpus.Documents
	// deep puts all fragments into one pool. Otherwise a pool has at most poolSize fragments.
	deep bool
	// patched has an overlay that patches each tenth document.
	patched bool
}

// poolSize keeps the config of a pool with files of 1 to 4 KiB below the maximum size of an API object.
const poolSize = 100

// shapes are the measured repositories. No cluster can store a pool of a thousand large fragments. So their number
// grows in two ways: more pools, or smaller files.
var shapes = []shape{
	{name: "wide", explained: "each fragment 3–5 files of 1–4 KiB and a unit, at most 100 fragments a pool", documents: corpus.Large},
	{name: "deep", explained: "each fragment 3–5 files of 50–100 bytes and a unit, all in one pool, a plain directory", documents: corpus.Small, deep: true},
	{name: "patched", explained: "as deep, from a base with an overlay that patches each tenth document", documents: corpus.Small, deep: true, patched: true},
}

func (s shape) corpus(fragments int) corpus.Repository {
	c := corpus.Repository{Documents: s.documents, Fragments: fragments, PerPool: min(fragments, poolSize)}
	if s.deep {
		c.PerPool = fragments
	}
	if s.patched {
		c.Patches = max(fragments/10, 1)
	}
	return c
}

// changes are branches that change one file each.
func changes(c corpus.Repository) (out []corpus.Change) {
	for k := range mostRuns {
		out = append(out, corpus.Change{
			Branch: branch(k), Documents: 1, Generation: k,
			First: (c.Fragments/2 + k) % c.Fragments,
		})
	}
	return out
}

func branch(k int) string { return fmt.Sprintf("change-%d", k) }
