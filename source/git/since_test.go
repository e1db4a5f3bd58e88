package git

import (
	"slices"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/bunsen-os/bunsen/source"
)

// TestACommitThatTheServerLeavesOutMakesTheHistoryUnknown: a server that controls what it sends must not be able to
// hide a commit, so that nobody checks its signature.
func TestACommitThatTheServerLeavesOutMakesTheHistoryUnknown(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	objects := map[string]plumbing.EncodedObject{}
	commit := func(message string, parents ...string) string {
		at = at.Add(time.Minute)
		who := object.Signature{Name: "a", Email: "a@example.com", When: at}
		c := object.Commit{Author: who, Committer: who, Message: message}
		for _, p := range parents {
			c.ParentHashes = append(c.ParentHashes, plumbing.NewHash(p))
		}
		o := &plumbing.MemoryObject{}
		if err := c.Encode(o); err != nil {
			t.Fatal(err)
		}
		objects[o.Hash().String()] = o
		return o.Hash().String()
	}
	root := commit("root")
	branch := commit("a branch that began before", root)
	applied := commit("applied", root)
	unsigned := commit("unsigned", applied)
	head := commit("merge", applied, unsigned)
	old := commit("merge of the branch", applied, branch)
	for sentence, c := range map[string]struct {
		head     string
		left     []string
		descends source.Descent
		added    int
	}{
		"everything":                     {head, nil, source.Descends, 2},
		"without what is applied":        {head, []string{root, applied}, source.Descends, 2},
		"without the unsigned commit":    {head, []string{root, applied, unsigned}, source.Unknown, 1},
		"the unsigned commit alone":      {head, []string{unsigned}, source.Unknown, 1},
		"a branch from before":           {old, nil, source.Descends, 2},
		"a branch whose begin is absent": {old, []string{root, applied}, source.Unknown, 1},
		"an older commit":                {root, nil, source.Rewritten, 1},
	} {
		store := memory.NewStorage()
		for hash, o := range objects {
			if !slices.Contains(c.left, hash) {
				if _, err := store.SetEncodedObject(o); err != nil {
					t.Fatal(err)
				}
			}
		}
		e, err := EvidenceOf(t.Context(), store, source.Picked{Hash: c.head, Applied: applied}, true)
		if err != nil || e.Descent != c.descends || len(e.Added) != c.added {
			t.Errorf("%s: %v with %d commits, %v", sentence, e.Descent, len(e.Added), err)
		}
	}
}
