package token

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// prefix begins every token, so that people and scanners for leaked secrets know one when they see it.
const prefix = "bunsen"

// Alphabet and lengths of the two parts of a token's text.
const (
	idAlphabet   = "abcdefghijklmnopqrstuvwxyz234567"
	idLength     = 10
	secretBytes  = 32
	secretLength = 43
)

// secrets is how a secret is spelled: one way only, so that a text is a token or is none.
var secrets = base64.RawURLEncoding.Strict()

// Token lets a machine have a config. ID is no secret: it names the ProvisioningToken and stands in logs. Secret is known to
// the machine alone; what is kept of it is its Hash. Printed by fmt or as JSON it shows its ID only; the text is String.
type Token struct{ ID, Secret string }

// New makes a token of 50 bits of id and 256 bits of secret. random is a source that nobody can foresee, such as
// crypto/rand.Reader.
func New(random io.Reader) (Token, error) {
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

// Parse reads what String prints, and nothing else. The error is a *Refusal for Malformed, and says nothing of the text.
func Parse(text string) (Token, error) {
	head, rest, _ := strings.Cut(text, ".")
	id, secret, _ := strings.Cut(rest, ".")
	if head != prefix || !IsID(id) || !isSecret(secret) {
		return Token{}, &Refusal{Reason: Malformed}
	}
	return Token{ID: id, Secret: secret}, nil
}

// IsID tells whether a text may be a token's id, which is the name of its ProvisioningToken.
func IsID(text string) bool {
	return len(text) == idLength && strings.Trim(text, idAlphabet) == ""
}

func isSecret(text string) bool {
	if len(text) != secretLength || strings.ContainsAny(text, "\r\n") { // which base64 passes over
		return false
	}
	raw, err := secrets.DecodeString(text)
	return err == nil && len(raw) == secretBytes
}

// FromHeader reads a token from the value of a request's Authorization: `Bearer TOKEN`, or Basic with the id as user and the
// secret as password, for clients that know only of user and password in a URL; the password may also be the whole token, and
// the user empty then. The error is a *Refusal for Missing or Malformed, and says nothing of the value.
func FromHeader(authorization string) (Token, error) {
	if authorization == "" {
		return Token{}, &Refusal{Reason: Missing}
	}
	scheme, value, _ := strings.Cut(authorization, " ")
	value = strings.TrimLeft(value, " ") // RFC 9110, 11.4: one or more spaces
	switch {
	case strings.EqualFold(scheme, "bearer"):
		return Parse(value)
	case strings.EqualFold(scheme, "basic"):
		return fromBasic(value)
	}
	return Token{}, &Refusal{Reason: Malformed}
}

// fromBasic reads the credentials of RFC 7617.
func fromBasic(value string) (Token, error) {
	const longest = 256 // a whole token and its id need 96
	if len(value) > longest {
		return Token{}, &Refusal{Reason: Malformed}
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil {
		return Token{}, &Refusal{Reason: Malformed}
	}
	user, password, _ := strings.Cut(string(raw), ":")
	if t, err := Parse(password); err == nil && (user == "" || user == t.ID) {
		return t, nil
	}
	return Parse(prefix + "." + user + "." + password)
}

// String is the whole text, `bunsen.ID.SECRET`: what a machine is given. It is for the one who asked for the token and for
// nobody else: never log it.
func (t Token) String() string { return prefix + "." + t.ID + "." + t.Secret }

// Format prints the id alone, whatever the verb: a token that slips into a log gives nothing away.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "token "+t.ID) }

// MarshalText gives the id alone, for the same reason.
func (t Token) MarshalText() ([]byte, error) { return []byte("token " + t.ID), nil }

// Hash is what is kept of the token: the SHA-256 of the secret's text, in hexadecimal. The secret is random enough that
// nothing slower is needed.
func (t Token) Hash() string {
	sum := sha256.Sum256([]byte(t.Secret))
	return hex.EncodeToString(sum[:])
}
