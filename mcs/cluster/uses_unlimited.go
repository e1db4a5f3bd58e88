package cluster

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

const (
	writeUsesInterval = 2 * time.Second
	// for a stopping server to write the remaining uses
	shutdownTimeout = 2 * time.Second
)

// unlimitedUses writes the uses of unlimited tokens, as information for users. No request waits for that, and uses
// accumulate while the API server is unreachable.
type unlimitedUses struct {
	tokens *tokens
	log    *slog.Logger

	mu      sync.Mutex
	pending map[string]*pendingUses // pending has the unwritten uses by the id of a known token.
}

// pendingUses of one token are not written yet.
type pendingUses struct {
	count  int
	recent []v1alpha1.TokenUse // recent has the last uses.
}

// errLost: a write got no answer, and the token does not have it.
var errLost = errors.New("the API server did not answer, and did not count the uses")

// add adds uses of a token, of which recent has the last.
func (t *unlimitedUses) add(id string, count int, recent ...v1alpha1.TokenUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.pending[id]
	if u == nil {
		u = &pendingUses{}
		t.pending[id] = u
	}
	u.count += count
	u.recent = append(u.recent, recent...)
	if extra := len(u.recent) - v1alpha1.RecentTokenUses; extra > 0 {
		u.recent = append([]v1alpha1.TokenUse(nil), u.recent[extra:]...)
	}
}

// run writes the remaining uses when the context ends.
func (t *unlimitedUses) run(ctx context.Context) {
	tick := time.NewTicker(writeUsesInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			t.flush(last)
			return
		}
	}
}

// flush keeps what cannot be written.
func (t *unlimitedUses) flush(ctx context.Context) {
	t.mu.Lock()
	all := t.pending
	t.pending = map[string]*pendingUses{}
	t.mu.Unlock()
	for id, u := range all {
		if err := t.flushOne(ctx, id, u); err != nil && !errors.Is(err, errGone) {
			t.log.Debug("writing the uses of a token failed, will retry", "token", id, "error", err)
			t.add(id, u.count, u.recent...)
		}
	}
}

func (t *unlimitedUses) flushOne(ctx context.Context, id string, u *pendingUses) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	known := t.tokens.get(id)
	if known == nil {
		return errGone
	}
	for {
		status := known.Status
		status.Used += int32(min(u.count-len(u.recent), math.MaxInt32-int(status.Used)))
		for _, use := range u.recent {
			status = join.AddUse(status, use)
		}
		_, err := t.tokens.write(ctx, known, status)
		if !errors.Is(err, errConflict) && !fault.IsUnknown(err) {
			return err
		}
		isLost := fault.IsUnknown(err)
		if known, err = t.tokens.read(ctx, id); err != nil || isCounted(known.Status, u.recent) {
			return err
		}
		if isLost { // The next flush tries again.
			return errLost
		}
	}
}
