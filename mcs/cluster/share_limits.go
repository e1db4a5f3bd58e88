package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// of requests for bootstrap tokens at a time. More would not be faster, and when thousands of machines boot, all
	// would time out. One that times out in the queue costs nothing.
	maxRequests = 32
	// of one holder, and of one source of it, so that neither ever uses all of maxRequests
	maxHolderRequests = maxRequests / 2
	maxSourceRequests = maxRequests / 4
)

// ShareLimits limits how many bootstrap tokens the server creates, in all and for each requester. The zero value is
// ready to use.
type ShareLimits struct {
	mu     sync.Mutex
	shares tokenShares
	queue  requestQueue
}

// Begin waits until a requester may create one bootstrap token. The caller calls end afterwards.
func (l *ShareLimits) Begin(ctx context.Context, r Requester,
	now time.Time,
) (end func(created bool, now time.Time), err error) {
	l.mu.Lock()
	if err := l.shares.reserve(r, now); err != nil {
		l.mu.Unlock()
		return nil, err
	}
	request := l.queue.add(r)
	l.mu.Unlock()
	end = func(created bool, now time.Time) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.queue.remove(request)
		if created {
			l.shares.confirm(r, now)
		} else {
			l.shares.release(r)
		}
	}
	select {
	case <-request.started:
		return end, nil
	case <-ctx.Done():
		end(false, now)
		return nil, fmt.Errorf("waiting for other requests for bootstrap tokens, of which %d run at a time: %w",
			maxRequests, ctx.Err())
	}
}

// requestQueue decides which request for a bootstrap token runs next. The zero value is ready to use, for one goroutine
// at a time.
type requestQueue struct {
	running     int
	byHolder    map[string]int
	byRequester map[Requester]int
	waiting     []*queuedRequest // waiting has the waiting requests, the oldest first.
}

// queuedRequest waits or runs.
type queuedRequest struct {
	by      Requester
	started chan struct{} // started is closed when the request runs.
}

func (q *requestQueue) add(r Requester) *queuedRequest {
	if q.byHolder == nil {
		q.byHolder, q.byRequester = map[string]int{}, map[Requester]int{}
	}
	added := &queuedRequest{by: r, started: make(chan struct{})}
	q.waiting = append(q.waiting, added)
	q.startNext()
	return added
}

// remove ends a request, whether it runs or not.
func (q *requestQueue) remove(ended *queuedRequest) {
	if i := slices.Index(q.waiting, ended); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.count(ended.by, -1)
	q.startNext()
}

// startNext starts requests while fewer than maxRequests run: of the holder with the fewest running ones, of its source
// with the fewest, and then the oldest.
func (q *requestQueue) startNext() {
	for q.running < maxRequests {
		next := -1
		for i, w := range q.waiting {
			if q.byHolder[w.by.holder] < maxHolderRequests && q.byRequester[w.by] < maxSourceRequests &&
				(next < 0 || q.before(w.by, q.waiting[next].by)) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		started := q.waiting[next]
		q.waiting = slices.Delete(q.waiting, next, next+1)
		q.count(started.by, 1)
		close(started.started)
	}
}

func (q *requestQueue) before(a, b Requester) bool {
	if x, y := q.byHolder[a.holder], q.byHolder[b.holder]; x != y {
		return x < y
	}
	return q.byRequester[a] < q.byRequester[b]
}

func (q *requestQueue) count(r Requester, n int) {
	q.running += n
	addCount(q.byHolder, r.holder, n)
	addCount(q.byRequester, r, n)
}
