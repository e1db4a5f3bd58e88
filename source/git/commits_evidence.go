package git

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
)

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
