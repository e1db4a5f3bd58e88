package memory

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// SmallAnswer is how many bytes of an answer may be in memory without a part of the budget. So a server that sends
// large answers delays no source whose answers are small.
const SmallAnswer = 64 << 10

// Budget is the bytes of memory that all sources of a process share: what they read into memory holds a part of it. Who
// waits gets its part in the order of the requests, so nobody waits for ever as long as each holder ends. A nil Budget
// has no limit. Budget is safe for concurrent use.
type Budget struct {
	size       int64
	free       *semaphore.Weighted
	held, most atomic.Int64
}

// New returns a budget.
func New(bytes int64) *Budget { return &Budget{size: bytes, free: semaphore.NewWeighted(bytes)} }

// Most returns the largest number of bytes that were held at one time.
func (m *Budget) Most() int64 { return m.most.Load() }

// Hold waits for a part of the budget, and returns a function that gives it back. A part that is larger than the budget
// counts as the whole budget. The error is a Retry fault.
func (m *Budget) Hold(ctx context.Context, bytes int64) (release func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	bytes = min(bytes, m.size)
	if m.free.Acquire(ctx, bytes) != nil {
		return nil, fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("waiting for %d MiB of memory, because "+
			"other sources use the %d MiB that all sources share: %w", bytes>>20, m.size>>20, context.Cause(ctx)))
	}
	now := m.held.Add(bytes)
	for most := m.most.Load(); now > most && !m.most.CompareAndSwap(most, now); most = m.most.Load() {
	}
	return func() { m.held.Add(-bytes); m.free.Release(bytes) }, nil
}

// Answer describes what a server sends for a request.
type Answer struct {
	// What the server sends, in a sentence: `refs`.
	What string
	// Limit is the most bytes of the answer, and Memory how many bytes its reader needs for all of it.
	Limit, Memory int64
}

// Reader reads an answer within its limit. It holds a part of a budget as soon as the answer is not small any more. Use
// it in one goroutine.
type Reader struct {
	ctx     context.Context //nolint:containedctx // a reader has no other way to wait
	from    io.Reader
	answer  Answer
	memory  *Budget
	granted func()
	release func()
	read    int64
}

// Reader returns a reader of an answer. It calls granted, unless that is nil, when it holds a part of the budget: from
// then on the server delays others. The caller releases the reader when the content is not in memory any more.
func (m *Budget) Reader(ctx context.Context, from io.Reader, a Answer, granted func()) *Reader {
	return &Reader{ctx: ctx, from: from, answer: a, memory: m, granted: granted}
}

// Read implements io.Reader. For an answer that is too long, the error is a Stalled fault.
func (r *Reader) Read(into []byte) (int, error) {
	if r.release == nil && r.read+int64(len(into)) > SmallAnswer {
		if room := SmallAnswer - r.read; room > 0 {
			into = into[:min(int64(len(into)), room)]
		} else {
			release, err := r.memory.Hold(r.ctx, r.answer.Memory)
			if err != nil {
				return 0, err
			}
			r.release = release
			if r.granted != nil {
				r.granted()
			}
		}
	}
	n, err := r.from.Read(into)
	if r.read += int64(n); r.read > r.answer.Limit {
		return 0, fault.NewStalled(v1alpha1.ReasonInvalidTree, fmt.Errorf("the server sends more than %d KiB of %s",
			r.answer.Limit>>10, r.answer.What))
	}
	return n, err
}

// Release gives the part of the budget back.
func (r *Reader) Release() {
	if r.release != nil {
		r.release()
		r.release = nil
	}
}

// Body is the body of an answer that releases its reader when it is closed.
func (r *Reader) Body(c io.Closer) io.ReadCloser { return body{r, c} }

type body struct {
	*Reader
	io.Closer
}

// Close implements io.Closer.
func (b body) Close() error {
	b.Release()
	return b.Closer.Close()
}
