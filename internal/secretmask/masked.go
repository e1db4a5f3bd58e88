package secretmask

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// markStart is the beginning of the mark of a secret.
const markStart = "(hidden, sha256 "

// HiddenWithDigest returns the mark of a secret with its Digest.
func HiddenWithDigest(secret string) string { return "(hidden, " + Digest(secret) + ")" }

// HasMark reports whether a text contains a mark of HiddenWithDigest.
func HasMark(shown string) bool { return strings.Contains(shown, markStart) }

// Digest returns a short digest of a secret: the digest is long enough to show a change, but too short to test guesses.
func Digest(secret string) string {
	return fmt.Sprintf("sha256 %.2x…", sha256.Sum256([]byte(secret)))
}

// Masked is what people may see of a content.
type Masked struct {
	// Text is the content, or a mark in its place.
	Text string
	// Hidden is true if Text is a mark.
	Hidden bool
}

// Mask hides a content whose path, unit or drop-in is marked, and shows every other one unchanged.
func (p Paths) Mask(name, content string) Masked {
	if content == "" || !p.Match(name) {
		return Masked{Text: content}
	}
	return Masked{Text: HiddenWithDigest(content), Hidden: true}
}
