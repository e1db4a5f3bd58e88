package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
)

const (
	// of requests for bootstrap tokens at a time. More would not be faster, and when thousands of machines boot, all
	// would time out. One that times out while it waits costs nothing.
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
	turns  mcs.Turns
}

// Begin waits until a requester may create one bootstrap token. The caller calls end afterwards.
func (l *ShareLimits) Begin(ctx context.Context, r Requester,
	now time.Time,
) (end func(created bool, now time.Time), err error) {
	l.mu.Lock()
	err = l.shares.reserve(r, now)
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	finish := func(created bool, now time.Time) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if created {
			l.shares.confirm(r, now)
		} else {
			l.shares.release(r)
		}
	}
	// From the narrowest on: what waits for the turns of all is at most what may run of each holder.
	endTurn, err := l.turns.Take(ctx, mcs.Limit{Key: r, Most: maxSourceRequests},
		mcs.Limit{Key: r.holder, Most: maxHolderRequests}, mcs.Limit{Most: maxRequests})
	if err != nil {
		finish(false, now)
		return nil, fmt.Errorf("waiting for other requests for bootstrap tokens, of which %d run at a time: %w",
			maxRequests, err)
	}
	return func(created bool, now time.Time) {
		endTurn()
		finish(created, now)
	}, nil
}
