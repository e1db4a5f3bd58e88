package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// limitedUses counts the uses of tokens with a limited number of uses. A use counts after the server has written it
// over the version of the token that it checked. So only one of several replicas gets the last use.
type limitedUses struct {
	store func(context.Context, *v1alpha1.ProvisioningToken, v1alpha1.ProvisioningTokenStatus) (
		*v1alpha1.ProvisioningToken, error)
	read    func(context.Context, string) (*v1alpha1.ProvisioningToken, error)
	now     func() time.Time
	batches mcs.BatchWriter[*v1alpha1.ProvisioningToken, v1alpha1.TokenUse]
}

func newLimitedUses(t *tokens, now func() time.Time) *limitedUses {
	l := &limitedUses{store: t.write, read: t.read, now: now}
	l.batches.Write = l.write
	return l
}

// count counts one use. The error is a *join.InvalidError if no use is left. Any other error is the reason why the
// server cannot write the use. A client whose use is counted gets its config, even if its request ends meanwhile.
func (l *limitedUses) count(ctx context.Context, known *v1alpha1.ProvisioningToken, use v1alpha1.TokenUse) error {
	return l.batches.Do(ctx, known.Name, known, use)
}

// maxLostWrites is how many writes in a row may be without an answer.
const maxLostWrites = 3

// write writes a batch of uses at once. write returns the written token and a result for each use, or one error for all
// uses. A write without an answer may have counted the uses, so write reads the token before it counts them again:
// otherwise, a machine could lose the only use of its token to its own first request.
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

// isCounted reports whether a status has any of the uses of one write. The API server stores all of them or none.
func isCounted(status v1alpha1.ProvisioningTokenStatus, uses []v1alpha1.TokenUse) bool {
	return slices.ContainsFunc(status.Recent, func(known v1alpha1.TokenUse) bool {
		return known.ID != "" && slices.ContainsFunc(uses, func(u v1alpha1.TokenUse) bool { return u.ID == known.ID })
	})
}
