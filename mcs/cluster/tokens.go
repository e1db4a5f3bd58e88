package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// cacheTokensDelay collects changes before they are cached.
const cacheTokensDelay = time.Second

// Of a write to a token.
var (
	errConflict = errors.New("the token was changed by another writer")
	errGone     = errors.New("the token was deleted")
)

// tokens are the ProvisioningTokens of the cluster.
type tokens struct {
	client   rest.Interface
	informer cache.SharedIndexInformer
	cache    *Cache
	changed  chan struct{}
	// of the cache, until the informer has synced
	cached atomic.Pointer[map[string]*v1alpha1.ProvisioningToken]
	log    *slog.Logger
}

// markChanged lets the tokens be cached.
func (t *tokens) markChanged() {
	select {
	case t.changed <- struct{}{}:
	default: // The channel is full: caching is already scheduled.
	}
}

// get is nil if there is none.
func (t *tokens) get(id string) *v1alpha1.ProvisioningToken {
	if !t.informer.HasSynced() {
		if kept := t.cached.Load(); kept != nil {
			return (*kept)[id]
		}
		return nil
	}
	object, exists, err := t.informer.GetStore().GetByKey(id)
	if known, ok := object.(*v1alpha1.ProvisioningToken); ok && exists && err == nil {
		return known
	}
	return nil
}

// read returns errGone if the token was deleted.
func (t *tokens) read(ctx context.Context, id string) (*v1alpha1.ProvisioningToken, error) {
	out := &v1alpha1.ProvisioningToken{}
	err := t.client.Get().Resource("provisioningtokens").Name(id).Do(ctx).Into(out)
	if apierrors.IsNotFound(err) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("reading token %s: %w", id, err)
	}
	return out, nil
}

// write replaces the status of the known version of a token and returns the new one. The error is errConflict if it now
// has another version, and errGone if it was deleted. After an error that fault.IsUnknown reports, the status may have
// been written.
func (t *tokens) write(ctx context.Context, known *v1alpha1.ProvisioningToken,
	status v1alpha1.ProvisioningTokenStatus,
) (*v1alpha1.ProvisioningToken, error) {
	next, out := known.DeepCopy(), &v1alpha1.ProvisioningToken{}
	next.Status = status
	err := t.client.Put().Resource("provisioningtokens").Name(known.Name).SubResource("status").Body(next).Do(ctx).
		Into(out)
	switch {
	case apierrors.IsConflict(err):
		return nil, errConflict
	case apierrors.IsNotFound(err):
		return nil, errGone
	case err != nil:
		return nil, fmt.Errorf("writing the uses of token %s: %w", known.Name, fault.APIRequest(err))
	}
	return out, nil
}

// waitForChanges waits for a change and then, for a delay, for more; false if the context ends before a change.
func waitForChanges(ctx context.Context, changed <-chan struct{}, delay time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	}
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	}
	return true
}

// runCache caches the tokens soon after they change.
func (t *tokens) runCache(ctx context.Context) {
	for waitForChanges(ctx, t.changed, cacheTokensDelay) {
		if !t.informer.HasSynced() {
			continue // The list of tokens may be incomplete, and an incomplete list must not be cached.
		}
		if err := t.save(); err != nil {
			t.log.Warn("caching the tokens failed", "error", err)
		}
	}
}

func (t *tokens) save() error {
	all := []v1alpha1.ProvisioningToken{}
	for _, object := range t.informer.GetStore().List() {
		if known, ok := object.(*v1alpha1.ProvisioningToken); ok {
			all = append(all, *known)
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding %d tokens: %w", len(all), err)
	}
	return t.cache.Put(tokensKey, raw)
}

// limitedUses counts the uses of tokens with a limited number. A use counts after it was written over the version that
// was checked, so only one of several replicas gets the last.
type limitedUses struct {
	store func(context.Context, *v1alpha1.ProvisioningToken, v1alpha1.ProvisioningTokenStatus) (
		*v1alpha1.ProvisioningToken, error)
	read    func(context.Context, string) (*v1alpha1.ProvisioningToken, error)
	now     func() time.Time
	batches mcs.BatchWriter[*v1alpha1.ProvisioningToken, v1alpha1.TokenUse]
}

// count returns a *join.InvalidError if no use is left, and otherwise why the use cannot be written. A client whose use
// is counted gets its config, even if its request ends meanwhile.
func (l *limitedUses) count(ctx context.Context, known *v1alpha1.ProvisioningToken, use v1alpha1.TokenUse) error {
	return l.batches.Do(ctx, known.Name, known, use)
}

// maxLostWrites limits the writes in a row without an answer.
const maxLostWrites = 3

// write writes a batch of uses at once, and returns the written token and a result for each, or one error for all. A
// write without an answer may have counted them, so the token is read before they count again: otherwise, a machine
// could lose the only use of its token to its own first request.
func (l *limitedUses) write(ctx context.Context, known *v1alpha1.ProvisioningToken,
	uses []v1alpha1.TokenUse,
) (*v1alpha1.ProvisioningToken, []error, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for lost := 0; ; {
		updated := known.DeepCopy()
		results, counted := make([]error, len(uses)), 0
		for i, use := range uses {
			if results[i] = join.CheckUsable(updated, l.now()); results[i] == nil {
				updated.Status = join.AddUse(updated.Status, use)
				counted++
			}
		}
		if counted == 0 {
			return known, results, nil
		}
		next, err := l.store(ctx, known, updated.Status)
		if err == nil {
			return next, results, nil
		}
		if fault.IsUnknown(err) {
			lost++
		}
		if errors.Is(err, errConflict) || fault.IsUnknown(err) && lost < maxLostWrites {
			next, err = l.read(ctx, known.Name)
		}
		switch {
		case errors.Is(err, errGone):
			return nil, nil, &join.InvalidError{ID: known.Name, Reason: join.Unknown}
		case err != nil:
			return nil, nil, err
		case isCounted(next.Status, uses):
			return next, results, nil
		}
		known = next
	}
}

// isCounted reports whether a status has any of the uses of one write: the API server stores all or none.
func isCounted(status v1alpha1.ProvisioningTokenStatus, uses []v1alpha1.TokenUse) bool {
	return slices.ContainsFunc(status.Recent, func(known v1alpha1.TokenUse) bool {
		return known.ID != "" && slices.ContainsFunc(uses, func(u v1alpha1.TokenUse) bool { return u.ID == known.ID })
	})
}

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
