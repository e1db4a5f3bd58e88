package join

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// prefix lets users and scanners for leaked secrets recognize a token.
const prefix = "bunsen"

const (
	idAlphabet   = "abcdefghijklmnopqrstuvwxyz234567"
	idLength     = 10
	secretBytes  = 32
	secretLength = 43
)

// secrets: strict: each secret has only one spelling.
var secrets = base64.RawURLEncoding.Strict()

// Token authorizes a machine to read a config. ID names the ProvisioningToken and appears in logs. Only the machine has
// Secret; the cluster has its Hash. fmt and JSON print only the ID; String returns the whole text.
type Token struct{ ID, Secret string }

// NewToken creates a token with 50 bits of id and 256 bits of secret. random must be unpredictable, such as
// crypto/rand.Reader.
func NewToken(random io.Reader) (Token, error) {
	raw := make([]byte, idLength+secretBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return Token{}, fmt.Errorf("making a token: %w", err)
	}
	id := make([]byte, idLength)
	for i := range id {
		id[i] = idAlphabet[raw[i]&31]
	}
	return Token{ID: string(id), Secret: secrets.EncodeToString(raw[idLength:])}, nil
}

// FromHeader reads a token from an Authorization header: `Bearer TOKEN`, or `Basic` with the id as user and the secret
// as password, or the whole token as password without a user, for clients that support only user and password in a URL.
// The error is an *InvalidError with the reason Missing or Malformed and does not quote the value.
func FromHeader(authorization string) (Token, error) {
	if authorization == "" {
		return Token{}, &InvalidError{Reason: Missing}
	}
	scheme, value, _ := strings.Cut(authorization, " ")
	value = strings.TrimLeft(value, " ") // RFC 9110, 11.4, allows one or more spaces.
	switch {
	case strings.EqualFold(scheme, "bearer"):
		return ParseToken(value)
	case strings.EqualFold(scheme, "basic"):
		return fromBasic(value)
	}
	return Token{}, &InvalidError{Reason: Malformed}
}

// fromBasic: RFC 7617.
func fromBasic(value string) (Token, error) {
	const longest = 256 // A whole token and its id need 96 characters.
	if len(value) > longest {
		return Token{}, &InvalidError{Reason: Malformed}
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil {
		return Token{}, &InvalidError{Reason: Malformed}
	}
	user, password, _ := strings.Cut(string(raw), ":")
	if t, err := ParseToken(password); err == nil && (user == "" || user == t.ID) {
		return t, nil
	}
	return ParseToken(prefix + "." + user + "." + password)
}

// ParseToken parses only texts that String returns. The error is an *InvalidError with the reason Malformed and does
// not quote the text.
func ParseToken(text string) (Token, error) {
	head, rest, _ := strings.Cut(text, ".")
	id, secret, _ := strings.Cut(rest, ".")
	if head != prefix || !IsID(id) || !isSecret(secret) {
		return Token{}, &InvalidError{Reason: Malformed}
	}
	return Token{ID: id, Secret: secret}, nil
}

// IsID reports whether a text is a valid token id, the name of a ProvisioningToken.
func IsID(text string) bool {
	return len(text) == idLength && strings.Trim(text, idAlphabet) == ""
}

func isSecret(text string) bool {
	if len(text) != secretLength || strings.ContainsAny(text, "\r\n") { // base64 would ignore line breaks.
		return false
	}
	raw, err := secrets.DecodeString(text)
	return err == nil && len(raw) == secretBytes
}

// String returns the whole text, `bunsen.ID.SECRET`, for the user who requested the token. No program may log it.
func (t Token) String() string { return prefix + "." + t.ID + "." + t.Secret }

// Format prints only the id, whatever the verb, so that a token in a log reveals nothing.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "token "+t.ID) }

// MarshalText returns only the id, so that a token in JSON reveals nothing.
func (t Token) MarshalText() ([]byte, error) { return []byte("token " + t.ID), nil }

// Hash is the SHA-256 of the secret's text, in hexadecimal, which the cluster stores. A fast hash is enough, because
// the secret is random.
func (t Token) Hash() string {
	sum := sha256.Sum256([]byte(t.Secret))
	return hex.EncodeToString(sum[:])
}

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

// The shortest and the longest lifetime of a token. MaxTTL limits how long a leaked token is valid.
const (
	MinTTL = time.Minute
	MaxTTL = 90 * 24 * time.Hour
)

// TokenOptions are the options of a new token.
type TokenOptions struct {
	Pool string
	// empty for any machine of the pool
	Node string
	// 0: without a limit
	Uses int32
	// at least MinTTL and at most MaxTTL
	TTL time.Duration
}

// Check returns every error in the options. The errors name the flags of the command line.
func (g TokenOptions) Check() error {
	var errs []error
	if bad := validation.IsDNS1123Subdomain(g.Pool); len(bad) > 0 {
		errs = append(errs, fmt.Errorf("--pool %q is no name of a pool: %s", g.Pool, strings.Join(bad, "; ")))
	}
	if bad := validation.IsDNS1123Subdomain(g.Node); g.Node != "" && len(bad) > 0 {
		errs = append(errs, fmt.Errorf("--node %q is no name of a node: %s", g.Node, strings.Join(bad, "; ")))
	}
	if g.Uses < 0 {
		errs = append(errs, fmt.Errorf("--uses %d: want 1 or more, or 0 for any number", g.Uses))
	}
	if g.TTL < MinTTL || g.TTL > MaxTTL {
		errs = append(errs, fmt.Errorf("--ttl %s: it must be between 1m and 90d; create a new token when this one "+
			"expires", g.TTL))
	}
	return errors.Join(errs...)
}

// Object returns the ProvisioningToken with all options and the token's hash. It expires at a whole second, because
// times in objects have no fractions.
func (g TokenOptions) Object(t Token, now time.Time) *v1alpha1.ProvisioningToken {
	return &v1alpha1.ProvisioningToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ProvisioningToken"},
		ObjectMeta: metav1.ObjectMeta{Name: t.ID},
		Spec: v1alpha1.ProvisioningTokenSpec{
			Pool: g.Pool, Node: g.Node, Uses: g.Uses, Hash: t.Hash(),
			Expires: metav1.NewTime(now.Add(g.TTL).UTC().Truncate(time.Second)),
		},
	}
}
