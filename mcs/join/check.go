package join

import (
	"crypto/subtle"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TokenReason is why a token is invalid: one word for logs and metrics.
type TokenReason string

// The reasons why a token is invalid.
const (
	// Missing: the request has no token.
	Missing TokenReason = "Missing"
	// Malformed: the request has a text that is not a token.
	Malformed TokenReason = "Malformed"
	// Unknown: no token has the id in the request.
	Unknown TokenReason = "Unknown"
	// Wrong: the token with the id in the request has another secret.
	Wrong TokenReason = "Wrong"
	// Expired: the token has expired.
	Expired TokenReason = "Expired"
	// Revoked by a user.
	Revoked TokenReason = "Revoked"
	UsedUp  TokenReason = "UsedUp"
	// OtherPool: the token is for another pool.
	OtherPool TokenReason = "OtherPool"
)

// RFC 9110, 15.5: retry with a valid token, or do not retry with this one.
const (
	unauthorized = 401
	forbidden    = 403
)

// reasons: Unknown and Wrong look the same to clients.
var reasons = map[TokenReason]struct {
	status      int
	public, log string
}{
	Missing:   {unauthorized, "a provisioning token is needed", "there is none"},
	Malformed: {unauthorized, "that is no provisioning token", "malformed"},
	Unknown:   {unauthorized, "the provisioning token is not known here", "unknown"},
	Wrong:     {unauthorized, "the provisioning token is not known here", "wrong secret"},
	Expired:   {unauthorized, "the provisioning token has expired", "expired"},
	Revoked:   {forbidden, "the provisioning token was revoked", "revoked"},
	UsedUp:    {forbidden, "the provisioning token is used up", "used up"},
	OtherPool: {forbidden, "the provisioning token is for another pool", "for another pool"},
}

// InvalidError says why a token is invalid.
type InvalidError struct {
	// empty if it cannot be read
	ID     string
	Reason TokenReason
}

// Error returns the text for the log. The text has the id, never the secret.
func (r *InvalidError) Error() string {
	if r.ID == "" {
		return "provisioning token: " + reasons[r.Reason].log
	}
	return "provisioning token " + r.ID + ": " + reasons[r.Reason].log
}

// ClientMessage returns one line for the client. The line does not reveal which ids exist.
func (r *InvalidError) ClientMessage() string { return reasons[r.Reason].public }

// HTTPStatus returns 401 if another token may help, and 403 if this one was valid earlier or is for another pool.
func (r *InvalidError) HTTPStatus() int {
	if s := reasons[r.Reason].status; s != 0 {
		return s
	}
	return unauthorized
}

// CheckToken returns nil if a token is valid for a pool's config, or an *InvalidError. The parameter known is the
// ProvisioningToken with its id, or nil. Only a client with the right secret learns that a token is expired, revoked,
// used up or for another pool. AddUse counts the use.
func CheckToken(t Token, known *v1alpha1.ProvisioningToken, pool string, now time.Time) error {
	// Unknown ids are compared too: the response time must not reveal which ones exist.
	kept := strings.Repeat("0", 64)
	if known != nil {
		kept = known.Spec.Hash
	}
	isRight := subtle.ConstantTimeCompare([]byte(t.Hash()), []byte(kept)) == 1
	switch {
	case known == nil || known.Name != t.ID:
		return &InvalidError{ID: t.ID, Reason: Unknown}
	case !isRight:
		return &InvalidError{ID: t.ID, Reason: Wrong}
	}
	if err := CheckUsable(known, now); err != nil {
		return err
	}
	if known.Spec.Pool != pool {
		return &InvalidError{ID: t.ID, Reason: OtherPool}
	}
	return nil
}

// CheckUsable returns nil if a token can still be used, or an *InvalidError, for nil with the reason Unknown. Call it
// before you count a use of a token that CheckToken accepted earlier.
func CheckUsable(known *v1alpha1.ProvisioningToken, now time.Time) error {
	if known == nil {
		return &InvalidError{Reason: Unknown}
	}
	if reason := unusableReason(known, now); reason != "" {
		return &InvalidError{ID: known.Name, Reason: reason}
	}
	return nil
}

// unusableReason is "" if a token can still be used.
func unusableReason(known *v1alpha1.ProvisioningToken, now time.Time) TokenReason {
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

// Valid is the State of a token that can be used.
const Valid = "good"

// TokenState returns the state of a token: Valid, "expired", "used up" or "revoked".
func TokenState(known *v1alpha1.ProvisioningToken, now time.Time) string {
	switch unusableReason(known, now) {
	case Revoked:
		return "revoked"
	case Expired:
		return "expired"
	case UsedUp:
		return "used up"
	}
	return Valid
}

// AddUse returns a status after one more use. Write it over the version of the object that was checked, so that only
// one of two requests gets the last use.
func AddUse(known v1alpha1.ProvisioningTokenStatus, use v1alpha1.TokenUse) v1alpha1.ProvisioningTokenStatus {
	out := *known.DeepCopy()
	if out.Used < math.MaxInt32 {
		out.Used++
	}
	if out.LastUsed == nil || out.LastUsed.Before(&use.Time) {
		out.LastUsed = use.Time.DeepCopy()
	}
	out.Recent = append(out.Recent, use)
	// Uses may be written late and in another order than they occurred.
	slices.SortStableFunc(out.Recent, func(a, b v1alpha1.TokenUse) int { return a.Time.Time.Compare(b.Time.Time) })
	if more := len(out.Recent) - v1alpha1.RecentTokenUses; more > 0 {
		out.Recent = slices.Delete(out.Recent, 0, more)
	}
	return out
}
