package join

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
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
