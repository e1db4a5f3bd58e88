package token

import (
	"crypto/subtle"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Judge tells whether a token is good for a pool's config: nil, or a *Refusal. known is the ProvisioningToken of its id, nil
// where there is none. What else is wrong with a token is told only to who has its secret. Nothing is counted: see Count.
func Judge(t Token, known *v1alpha1.ProvisioningToken, pool string, now time.Time) error {
	kept := strings.Repeat("0", 64) // compared all the same, so that the time tells nothing
	if known != nil {
		kept = known.Spec.Hash
	}
	right := subtle.ConstantTimeCompare([]byte(t.Hash()), []byte(kept)) == 1
	switch {
	case known == nil || known.Name != t.ID:
		return &Refusal{ID: t.ID, Reason: Unknown}
	case !right:
		return &Refusal{ID: t.ID, Reason: Wrong}
	}
	if err := Spent(known, now); err != nil {
		return err
	}
	if known.Spec.Pool != pool {
		return &Refusal{ID: t.ID, Reason: OtherPool}
	}
	return nil
}

// Spent tells whether a token is still good for anything: nil, or a *Refusal. It is for who counts a use of a token that was
// judged before: it may be spent by now. known nil is Unknown.
func Spent(known *v1alpha1.ProvisioningToken, now time.Time) error {
	if known == nil {
		return &Refusal{Reason: Unknown}
	}
	if reason := spent(known, now); reason != "" {
		return &Refusal{ID: known.Name, Reason: reason}
	}
	return nil
}

// spent is why a token is no longer good for anything; empty while it is.
func spent(known *v1alpha1.ProvisioningToken, now time.Time) Reason {
	switch {
	case known.Spec.Revoked:
		return Revoked
	case !now.Before(known.Spec.Expires.Time):
		return Expired
	case known.Spec.Uses > 0 && known.Status.Used >= known.Spec.Uses:
		return UsedUp
	}
	return ""
}

// Good is the State of a token that is not spent.
const Good = "good"

// State is what a token is in a word or two: Good, "expired", "used up" or "revoked".
func State(known *v1alpha1.ProvisioningToken, now time.Time) string {
	switch spent(known, now) {
	case Revoked:
		return "revoked"
	case Expired:
		return "expired"
	case UsedUp:
		return "used up"
	}
	return Good
}

// Count is a token's status after one more use. Who counts writes it with the version of the object that Judge saw: then of
// two that count the last use at once only one succeeds. The status given is not changed.
func Count(known v1alpha1.ProvisioningTokenStatus, use v1alpha1.TokenUse) v1alpha1.ProvisioningTokenStatus {
	out := *known.DeepCopy()
	if out.Used < math.MaxInt32 {
		out.Used++
	}
	if out.LastUsed == nil || out.LastUsed.Before(&use.Time) {
		out.LastUsed = use.Time.DeepCopy()
	}
	out.Recent = append(out.Recent, use)
	// Uses may be written later than they were, and not in their order.
	slices.SortStableFunc(out.Recent, func(a, b v1alpha1.TokenUse) int { return a.Time.Time.Compare(b.Time.Time) })
	if more := len(out.Recent) - v1alpha1.RecentTokenUses; more > 0 {
		out.Recent = slices.Delete(out.Recent, 0, more)
	}
	return out
}
