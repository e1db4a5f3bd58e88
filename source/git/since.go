package git

import (
	"container/heap"
	"context"
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// historyWalk visits commits, the newest first.
type historyWalk struct {
	store   objects.Reader
	queue   queue
	queued  map[plumbing.Hash]bool // queued has the commits that are or were in the queue.
	waiting map[plumbing.Hash]bool // waiting has the commits that are in the queue now.
	old     map[plumbing.Hash]bool // old has the applied commit and its ancestors.
	missing map[plumbing.Hash]bool // missing has the commits that the store does not have.
	new     int                    // the number of commits in the queue that are not in old
}

// enqueue adds a commit, unless the store does not have it. A commit that enqueue gets again as the parent of an old
// commit becomes old.
func (w *historyWalk) enqueue(hash plumbing.Hash, old bool) error {
	if w.queued[hash] {
		if old && !w.old[hash] {
			w.old[hash] = true
			if w.waiting[hash] {
				w.new--
			}
		}
		return nil
	}
	w.queued[hash] = true
	w.old[hash] = old
	if w.store.HasEncodedObject(hash) != nil {
		w.missing[hash] = true
		return nil
	}
	raw, err := objects.ReadObject(w.store, plumbing.CommitObject, hash, maxCommitBytes)
	if err != nil {
		return err
	}
	var c object.Commit
	if err := c.Decode(objects.Memory(plumbing.CommitObject, raw)); err != nil {
		return fmt.Errorf("reading commit %s: %w", hash, err)
	}
	heap.Push(&w.queue, queuedCommit{hash: hash, raw: raw, parents: c.ParentHashes, time: c.Committer.When.Unix()})
	w.waiting[hash] = true
	if !old {
		w.new++
	}
	return nil
}

// next removes the newest commit from the queue.
func (w *historyWalk) next() queuedCommit {
	c, _ := heap.Pop(&w.queue).(queuedCommit)
	delete(w.waiting, c.hash)
	if !w.old[c.hash] {
		w.new--
	}
	return c
}

// queuedCommit is a commit that the walk has not visited yet.
type queuedCommit struct {
	hash    plumbing.Hash
	raw     []byte
	parents []plumbing.Hash
	time    int64
}

// queue is a heap of commits, the newest first.
type queue []queuedCommit

// Len returns the number of commits.
func (q queue) Len() int { return len(q) }

// Less reports whether commit i is newer than commit j.
func (q queue) Less(i, j int) bool { return q[i].time > q[j].time }

// Swap exchanges two commits.
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push adds a commit.
func (q *queue) Push(c any) { *q = append(*q, c.(queuedCommit)) }

// Pop removes the last commit.
func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

// maxCommitBytes is the largest commit or tag, in bytes.
const maxCommitBytes = 1 << 20

// EvidenceOf reads the evidence from a folder with commits. The parameter complete means that the folder has all
// commits since the applied commit.
func EvidenceOf(ctx context.Context, store objects.Reader, p source.Picked, complete bool) (source.Evidence, error) {
	head := plumbing.NewHash(p.Hash)
	raw, err := objects.ReadObject(store, plumbing.CommitObject, head, maxCommitBytes)
	if err != nil {
		return source.Evidence{}, fmt.Errorf("reading commit %s: %w", p.Hash, err)
	}
	e := source.Evidence{Ref: p.FullName, Applied: p.Applied, Commit: raw, Added: [][]byte{raw}}
	if p.TagObject != "" {
		if e.Tag, err = objects.ReadObject(store, plumbing.TagObject, plumbing.NewHash(p.TagObject),
			maxCommitBytes); err != nil {
			return source.Evidence{}, fmt.Errorf("reading the object of tag %s: %w", p.Ref, err)
		}
	}
	switch {
	case p.Applied == p.Hash:
		e.Descent = source.Descends
	case p.Applied != "" && complete:
		if e.Added, e.Descent, err = commitsSince(ctx, store, plumbing.NewHash(p.Applied), head); len(e.Added) == 0 {
			e.Added = [][]byte{raw} // It is older than the applied commit, or its history is not known.
		}
	}
	return e, err
}

// commitsSince returns the objects of the commits that head adds to the applied commit, head first, and the relation of
// both commits. If the store lacks a parent of an added commit, and the parent is not known to be an ancestor of the
// applied commit, the relation is Unknown and the result empty: the missing history could add any commit.
//
// commitsSince reads the newest commits first. So commitsSince reads only a few commits if head adds a few commits to a
// long history. The times of commits are what their authors write: a wrong time can only add commits of the applied
// history to the result.
func commitsSince(ctx context.Context, store objects.Reader, applied,
	head plumbing.Hash,
) ([][]byte, source.Descent, error) {
	w := historyWalk{
		store: store, old: map[plumbing.Hash]bool{}, queued: map[plumbing.Hash]bool{},
		waiting: map[plumbing.Hash]bool{}, missing: map[plumbing.Hash]bool{},
	}
	if err := w.enqueue(head, false); err != nil {
		return nil, source.Unknown, err
	}
	if err := w.enqueue(applied, true); err != nil {
		return nil, source.Unknown, err
	}
	var added [][]byte
	descent := source.Rewritten
	for w.new > 0 {
		if ctx.Err() != nil {
			return nil, source.Unknown, context.Cause(ctx)
		}
		c := w.next()
		old := w.old[c.hash]
		if !old {
			added = append(added, c.raw)
		}
		if !old && slices.Contains(c.parents, applied) {
			descent = source.Descends
		}
		for _, parent := range c.parents {
			if err := w.enqueue(parent, old); err != nil {
				return nil, source.Unknown, err
			}
		}
	}
	for hash := range w.missing {
		if !w.old[hash] {
			return nil, source.Unknown, nil
		}
	}
	return added, descent, nil
}
