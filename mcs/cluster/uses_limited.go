package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/batch"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// limitedUses counts the uses of tokens with a limited number of uses. A use counts after the server has written it
// over the version of the token that it checked. So only one of several replicas gets the last use.
type limitedUses struct {
	store func(context.Context, *v1alpha1.ProvisioningToken, v1alpha1.ProvisioningTokenStatus) (
		*v1alpha1.ProvisioningToken, error)
	read    func(context.Context, string) (*v1alpha1.ProvisioningToken, error)
	now     func() time.Time
	batches batch.Writer[*v1alpha1.ProvisioningToken, v1alpha1.TokenUse]
}

func newLimitedUses(t *tokens, now func() time.Time) *limitedUses {
	l := &limitedUses{store: t.write, read: t.read, now: now}
	l.batches.Write = l.write
	return l
}

// count counts one use. The error is a *token.InvalidError if no use is left. Any other error is the reason why the
// server cannot write the use. A client whose use is counted gets its config, even if its request ends meanwhile.
func (l *limitedUses) count(ctx context.Context, known *v1alpha1.ProvisioningToken, use v1alpha1.TokenUse) error {
	return l.batches.Do(ctx, known.Name, known, use)
}

// write writes a batch of uses at once. write returns the written token and a result for each use, or one error for all
// uses.
func (l *limitedUses) write(ctx context.Context, known *v1alpha1.ProvisioningToken,
	uses []v1alpha1.TokenUse,
) (*v1alpha1.ProvisioningToken, []error, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		updated := known.DeepCopy()
		results, counted := make([]error, len(uses)), 0
		for i, use := range uses {
			if results[i] = token.CheckUsable(updated, l.now()); results[i] == nil {
				updated.Status = token.AddUse(updated.Status, use)
				counted++
			}
		}
		if counted == 0 {
			return known, results, nil
		}
		next, err := l.store(ctx, known, updated.Status)
		switch {
		case err == nil:
			return next, results, nil
		case errors.Is(err, errConflict):
			next, err = l.read(ctx, known.Name)
		}
		if errors.Is(err, errGone) {
			return nil, nil, &token.InvalidError{ID: known.Name, Reason: token.Unknown}
		}
		if err != nil {
			return nil, nil, err
		}
		known = next
	}
}
