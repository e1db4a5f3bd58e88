package git

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// Blamed is the last change of a line. The zero value means that it is not committed yet.
type Blamed struct {
	// Commit that gave the line its text; without Ref and Signer. In a shallow repository it may be the oldest there is.
	Commit source.Commit
	// File is the path in the repository's root at that commit: another one if the file was renamed since.
	File string
	// Line is its number there; 0 where the question was about a whole file.
	Line int
}

// Question is about lines of one file.
type Question struct {
	// File as in a tree of the revision: below At.Path.
	File string
	// Lines count from 1. Line 0 is the file as a whole: which commit last changed anything in it.
	Lines []int
	// Text is the file in the work tree, where the lines are counted in that; nil where they are counted in the revision.
	// Lines that it has and the revision has not are not committed yet.
	Text []byte
}

// ErrNoSuchLine tells of a file that the revision does not have, or of a line beyond its end.
var ErrNoSuchLine = errors.New("no such line")

// Blame finds for each line the commit that gave it its text. It walks from the revision along the parents, follows the
// one that has the very file, and compares lines only where no parent has it; a file that is gone from its place is
// followed to where the same content was. A file that the revision does not have gives ErrNoSuchLine, unless there is a
// Text; other errors are faults.
func (h *History) Blame(ctx context.Context, q Question) (map[int]Blamed, error) {
	out, err := h.blame(ctx, q)
	if err != nil && !errors.Is(err, ErrNoSuchLine) {
		return nil, damaged(ctx, "reading the history of "+q.File, err)
	}
	return out, err
}

func (h *History) blame(ctx context.Context, q Question) (map[int]Blamed, error) {
	start, err := h.commit(h.start)
	if err != nil {
		return nil, err
	}
	w := &blame{h: h, lines: map[plumbing.Hash][]string{}, waiting: map[suspect]*asked{}, found: map[int]Blamed{}}
	file := h.below(q.File)
	blob, err := h.blob(start, file)
	if err != nil {
		return nil, err
	}
	if blob.IsZero() && q.Text == nil {
		return nil, fmt.Errorf("%w: the revision has no file %s", ErrNoSuchLine, q.File)
	}
	open, err := w.first(q, blob)
	if err != nil {
		return nil, err
	}
	w.suspect(suspect{start, file, blob}, open)
	for w.queue.Len() > 0 {
		if ctx.Err() != nil {
			return nil, fault.NewRetry(v1alpha1.ReasonUnreachable, ctx.Err())
		}
		next, ok := heap.Pop(&w.queue).(*asked)
		if !ok {
			break // the queue holds nothing else
		}
		delete(w.waiting, next.suspect)
		if err := w.step(next); err != nil {
			return nil, err
		}
	}
	return w.found, nil
}

// blame is one question on its way.
type blame struct {
	h *History
	// lines of blobs that were compared.
	lines map[plumbing.Hash][]string
	// waiting are the suspects to look at, the newest first in queue.
	waiting map[suspect]*asked
	queue   suspects
	found   map[int]Blamed
}

// suspect is a version of the file that may be where lines were written.
type suspect struct {
	at   *visit
	file string
	blob plumbing.Hash
}

// asked is a suspect with the lines that it has: the line's number in it, to those asked for.
type asked struct {
	suspect
	open map[int][]int
}

// first maps the lines asked for to those of the revision. Line 0 is the whole file.
func (w *blame) first(q Question, blob plumbing.Hash) (map[int][]int, error) {
	var have []string
	var err error
	if !blob.IsZero() {
		if have, err = w.text(blob); err != nil {
			return nil, err
		}
	}
	now, same := have, map[int]int(nil)
	if q.Text != nil {
		now = split(q.Text)
		same = common(now, have)
	}
	open := map[int][]int{}
	for _, n := range q.Lines {
		switch was, ok := same[n-1]; {
		case n < 0 || n > len(now) || n == 0 && blob.IsZero() && q.Text == nil:
			return nil, fmt.Errorf("%w: %s has %d lines, and line %d is asked for", ErrNoSuchLine, q.File, len(now), n)
		case n == 0 && (q.Text == nil || slices.Equal(now, have) && !blob.IsZero()):
			open[0] = []int{0}
		case n > 0 && q.Text == nil:
			open[n] = append(open[n], n)
		case n > 0 && ok:
			open[was+1] = append(open[was+1], n)
		default:
			w.found[n] = Blamed{}
		}
	}
	return open, nil
}

// suspect adds lines to a version that is to be looked at.
func (w *blame) suspect(s suspect, open map[int][]int) {
	if len(open) == 0 {
		return
	}
	a, ok := w.waiting[s]
	if !ok {
		a = &asked{s, map[int][]int{}}
		w.waiting[s] = a
		heap.Push(&w.queue, a)
	}
	for n, lines := range open {
		a.open[n] = append(a.open[n], lines...)
	}
}

// step hands lines on to the parents that have them; the rest was written here.
func (w *blame) step(a *asked) error {
	versions, err := w.versions(a)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if v.blob == a.blob {
			w.suspect(v, a.open)
			return nil
		}
	}
	whole := a.open[0]
	delete(a.open, 0)
	for i, v := range versions {
		if len(a.open) == 0 {
			break
		}
		if slices.ContainsFunc(versions[:i], func(x suspect) bool { return x.blob == v.blob }) {
			continue
		}
		if err := w.pass(a, v); err != nil {
			return err
		}
	}
	if len(whole) > 0 {
		a.open[0] = whole
	}
	return w.settle(a)
}

// versions are the file in each parent that has it.
func (w *blame) versions(a *asked) (out []suspect, err error) {
	parents, err := w.h.parents(a.at)
	if err != nil {
		return nil, err
	}
	for _, p := range parents {
		blob, err := w.h.blob(p, a.file)
		if err != nil {
			return nil, err
		}
		if !blob.IsZero() {
			out = append(out, suspect{p, a.file, blob})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, p := range parents {
		if name, err := w.h.renamed(a.at, p, a.file, a.blob); err != nil {
			return nil, err
		} else if name != "" {
			return []suspect{{p, name, a.blob}}, nil
		}
	}
	return nil, nil
}

// pass hands those lines to a parent's version that it has, too.
func (w *blame) pass(a *asked, v suspect) error {
	now, err := w.text(a.blob)
	if err != nil {
		return err
	}
	before, err := w.text(v.blob)
	if err != nil {
		return err
	}
	same, handed := common(now, before), map[int][]int{}
	for n, lines := range a.open {
		if was, ok := same[n-1]; ok {
			handed[was+1] = lines
			delete(a.open, n)
		}
	}
	w.suspect(v, handed)
	return nil
}

// settle attributes what is left to a version.
func (w *blame) settle(a *asked) error {
	if len(a.open) == 0 {
		return nil
	}
	c, err := w.h.describe(a.at.hash)
	if err != nil {
		return err
	}
	for n, lines := range a.open {
		for _, line := range lines {
			w.found[line] = Blamed{c, a.file, n}
		}
	}
	return nil
}

// maxBlamed is how many bytes a file may have whose lines are compared.
const maxBlamed = 16 << 20

func (w *blame) text(blob plumbing.Hash) ([]string, error) {
	if lines, ok := w.lines[blob]; ok {
		return lines, nil
	}
	data, err := content(w.h.store, plumbing.BlobObject, blob, maxBlamed)
	if err != nil {
		return nil, err
	}
	w.lines[blob] = split(data)
	return w.lines[blob], nil
}

// split takes a text apart into its lines, each with its line break; a last line without one is another line than with.
func split(data []byte) []string {
	return slices.Collect(strings.Lines(string(data)))
}

// suspects is a heap with the newest commit on top.
type suspects []*asked

// Len is heap.Interface's.
func (s suspects) Len() int { return len(s) }

// Less is heap.Interface's.
func (s suspects) Less(i, j int) bool { return s[i].at.when > s[j].at.when }

// Swap is heap.Interface's.
func (s suspects) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push is heap.Interface's.
func (s *suspects) Push(x any) {
	if a, ok := x.(*asked); ok {
		*s = append(*s, a)
	}
}

// Pop is heap.Interface's.
func (s *suspects) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
