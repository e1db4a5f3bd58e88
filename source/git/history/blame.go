package history

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/textdiff"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/go-git/go-git/v5/plumbing"
)

// Change is the last change of a line. The zero value means that the line is not committed.
type Change struct {
	// Commit is the commit that gave the line its text, without Ref and Signer. In a shallow repository, Commit may be
	// the oldest commit that the repository has.
	Commit source.Commit
	// File is the path from the repository's root at that commit. After a rename, File differs from the path in the
	// query.
	File string
	// Line is the line's number at that commit; 0 if the query was about a whole file.
	Line int
}

// Query names lines of one file.
type Query struct {
	// File is a path relative to the Path of the revision.
	File string
	// Lines count from 1. Line 0 is the whole file: Blame returns the commit that last changed anything in it.
	Lines []int
	// Text is the file in the work tree, if Lines are line numbers of that file. Text is nil if Lines are line numbers
	// of the revision. Lines of Text that the revision does not have are not committed.
	Text []byte
}

// ErrNoSuchLine is returned for a file that the revision does not have, and for a line beyond its end.
var ErrNoSuchLine = errors.New("no such line")

// Blame finds the commit that gave each line its text. Blame walks from the revision to its parents. Blame compares
// lines only if every parent has another version of the file. If a parent does not have the path, Blame looks for a
// rename. Errors are faults, except ErrNoSuchLine.
func (h *History) Blame(ctx context.Context, q Query) (map[int]Change, error) {
	out, err := h.blame(ctx, q)
	if err != nil && !errors.Is(err, ErrNoSuchLine) {
		return nil, git.ReadFault(ctx, "reading the history of "+q.File, err)
	}
	return out, err
}

func (h *History) blame(ctx context.Context, q Query) (map[int]Change, error) {
	start, err := h.commit(h.start)
	if err != nil {
		return nil, err
	}
	file := path.Join(h.folder, q.File)
	blob, err := h.blob(start, file)
	if err != nil {
		return nil, err
	}
	b := &blame{h: h, lines: map[plumbing.Hash][]string{}, found: map[int]Change{}}
	open, err := b.linesOf(q, blob)
	if err != nil {
		return nil, err
	}
	b.enqueue(version{start, file, blob}, open)
	for len(b.queue) > 0 {
		if ctx.Err() != nil {
			return nil, fault.NewRetry(v1alpha1.ReasonUnreachable, ctx.Err())
		}
		if err := b.visit(b.dequeue()); err != nil {
			return nil, err
		}
	}
	return b.found, nil
}

// blame is the state of one query.
type blame struct {
	h *History
	// lines caches the lines of compared blobs.
	lines map[plumbing.Hash][]string
	// queue contains the versions to visit. The queue is short: one version for each branch of the history that Blame
	// currently follows.
	queue []*candidate
	found map[int]Change
}

// version is the file at one commit.
type version struct {
	commit *commit
	file   string
	blob   plumbing.Hash
}

// openLines maps the number of a line in a version to the line numbers of the query.
type openLines map[int][]int

// candidate is a version of the file whose commit may have written some of the open lines.
type candidate struct {
	version
	open openLines
}

// linesOf maps the lines of a query to lines of the revision. linesOf records lines of Text that the revision does not
// have as not committed.
func (b *blame) linesOf(q Query, blob plumbing.Hash) (openLines, error) {
	if blob.IsZero() && q.Text == nil {
		return nil, fmt.Errorf("%w: the revision has no file %s", ErrNoSuchLine, q.File)
	}
	var committed []string
	var err error
	if !blob.IsZero() {
		if committed, err = b.text(blob); err != nil {
			return nil, err
		}
	}
	text := committed
	if q.Text != nil {
		text = splitLines(q.Text)
	}
	same := commonLines(text, committed)
	unchanged := !blob.IsZero() && slices.Equal(text, committed)
	open := openLines{}
	for _, n := range q.Lines {
		was, isCommitted := same[n-1]
		switch {
		case n < 0 || n > len(text):
			return nil, fmt.Errorf("%w: %s has %d lines and no line %d", ErrNoSuchLine, q.File, len(text), n)
		case n == 0 && unchanged:
			open[0] = []int{0}
		case n > 0 && isCommitted:
			open[was+1] = append(open[was+1], n)
		default:
			b.found[n] = Change{}
		}
	}
	return open, nil
}

// enqueue adds lines to a version that is to be visited.
func (b *blame) enqueue(v version, open openLines) {
	if len(open) == 0 {
		return
	}
	i := slices.IndexFunc(b.queue, func(c *candidate) bool { return c.version == v })
	if i < 0 {
		i, b.queue = len(b.queue), append(b.queue, &candidate{v, openLines{}})
	}
	for n, lines := range open {
		b.queue[i].open[n] = append(b.queue[i].open[n], lines...)
	}
}

// dequeue removes the newest version of the queue.
func (b *blame) dequeue() *candidate {
	newest := 0
	for i, c := range b.queue {
		if c.commit.when > b.queue[newest].commit.when {
			newest = i
		}
	}
	c := b.queue[newest]
	b.queue = slices.Delete(b.queue, newest, newest+1)
	return c
}

// visit passes the open lines of a version to those parents that have them, and attributes the remaining lines to the
// version's commit.
func (b *blame) visit(c *candidate) error {
	versions, err := b.parentVersions(c)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if v.blob == c.blob {
			b.enqueue(v, c.open)
			return nil
		}
	}
	whole := c.open[0]
	delete(c.open, 0)
	for i, v := range versions {
		if slices.ContainsFunc(versions[:i], func(x version) bool { return x.blob == v.blob }) {
			continue
		}
		if err := b.passCommon(c, v); err != nil {
			return err
		}
	}
	if len(whole) > 0 {
		c.open[0] = whole
	}
	return b.attribute(c)
}

// parentVersions returns the file in each parent that has it, or the file that was renamed to it.
func (b *blame) parentVersions(c *candidate) (out []version, err error) {
	parents, err := b.h.parents(c.commit)
	if err != nil {
		return nil, err
	}
	for _, p := range parents {
		blob, err := b.h.blob(p, c.file)
		if err != nil {
			return nil, err
		}
		if !blob.IsZero() {
			out = append(out, version{p, c.file, blob})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, p := range parents {
		if name, err := b.h.renamedFrom(c.commit, p, c.file, c.blob); err != nil {
			return nil, err
		} else if name != "" {
			return []version{{p, name, c.blob}}, nil
		}
	}
	return nil, nil
}

// passCommon passes the open lines that a parent's version has to that version.
func (b *blame) passCommon(c *candidate, parent version) error {
	if len(c.open) == 0 {
		return nil
	}
	now, err := b.text(c.blob)
	if err != nil {
		return err
	}
	before, err := b.text(parent.blob)
	if err != nil {
		return err
	}
	same, passed := commonLines(now, before), openLines{}
	for n, lines := range c.open {
		if was, ok := same[n-1]; ok {
			passed[was+1] = lines
			delete(c.open, n)
		}
	}
	b.enqueue(parent, passed)
	return nil
}

// attribute records a commit as the one that wrote the lines that are still open.
func (b *blame) attribute(c *candidate) error {
	if len(c.open) == 0 {
		return nil
	}
	described, err := b.h.describe(c.commit.hash)
	if err != nil {
		return err
	}
	for n, lines := range c.open {
		for _, line := range lines {
			b.found[line] = Change{described, c.file, n}
		}
	}
	return nil
}

// maxFileBytes is the size up to which the lines of files are compared.
const maxFileBytes = 16 << 20

func (b *blame) text(blob plumbing.Hash) ([]string, error) {
	if lines, ok := b.lines[blob]; ok {
		return lines, nil
	}
	data, err := objects.ReadObject(b.h.store, plumbing.BlobObject, blob, maxFileBytes)
	if err != nil {
		return nil, err
	}
	b.lines[blob] = splitLines(data)
	return b.lines[blob], nil
}

// splitLines splits a text into lines with their line breaks. So a last line without a line break differs from the same
// line with a line break.
func splitLines(data []byte) []string { return slices.Collect(strings.Lines(string(data))) }

// commonLines maps line numbers of a to the numbers of the same lines of b, by the shortest script of edits. Line
// numbers count from 0. Texts that are too different for textdiff.Script have no common lines.
func commonLines(a, b []string) map[int]int {
	edits, _ := textdiff.Script(a, b)
	common := map[int]int{}
	i, j := 0, 0
	for _, e := range edits {
		if e.Sign == ' ' {
			common[i] = j
		}
		if e.Sign != '+' {
			i++
		}
		if e.Sign != '-' {
			j++
		}
	}
	return common
}
