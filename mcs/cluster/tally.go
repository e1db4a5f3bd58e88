package cluster

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/token"
)

const (
	// tallyEvery is how long uses of a token of any number gather before they are written.
	tallyEvery = 2 * time.Second
	// lastWords is how long a server that is told to stop tries to write what it has.
	lastWords = 2 * time.Second
)

// tally writes, for people to read, the uses of tokens that have any number of them: nobody waits for it, and while the API
// server is away it gathers.
type tally struct {
	tokens *tokens
	log    *slog.Logger

	mu        sync.Mutex
	unwritten map[string]*unwritten // by token, which all are known
}

// unwritten are uses of one token.
type unwritten struct {
	count  int
	recent []v1alpha1.TokenUse // the last ones
}

func (t *tally) add(id string, by ...v1alpha1.TokenUse) { t.gather(id, len(by), by) }

// gather adds uses, of which recent are the last.
func (t *tally) gather(id string, count int, recent []v1alpha1.TokenUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.unwritten[id]
	if u == nil {
		u = &unwritten{}
		t.unwritten[id] = u
	}
	u.count += count
	u.recent = append(u.recent, recent...)
	if more := len(u.recent) - v1alpha1.RecentTokenUses; more > 0 {
		u.recent = append([]v1alpha1.TokenUse(nil), u.recent[more:]...)
	}
}

// run writes until the context ends, and what is left then.
func (t *tally) run(ctx context.Context) {
	tick := time.NewTicker(tallyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
			defer cancel()
			t.flush(last)
			return
		}
	}
}

// flush writes what has gathered; what cannot be written gathers on.
func (t *tally) flush(ctx context.Context) {
	t.mu.Lock()
	all := t.unwritten
	t.unwritten = map[string]*unwritten{}
	t.mu.Unlock()
	for id, u := range all {
		err := t.flushOne(ctx, id, u)
		switch {
		case err == nil, errors.Is(err, errGone):
		default:
			t.log.Debug("writing the uses of a token, will try again", "token", id, "error", err)
			t.gather(id, u.count, u.recent)
		}
	}
}

func (t *tally) flushOne(ctx context.Context, id string, u *unwritten) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	known := t.tokens.known(id)
	if known == nil {
		return errGone
	}
	for {
		status := known.Status
		status.Used += int32(min(u.count-len(u.recent), math.MaxInt32-int(status.Used)))
		for _, use := range u.recent {
			status = token.Count(status, use)
		}
		_, err := t.tokens.write(ctx, known, status)
		if !errors.Is(err, errConflict) {
			return err
		}
		if known, err = t.tokens.read(ctx, id); err != nil {
			return err
		}
	}
}
