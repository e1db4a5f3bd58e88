package drift

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy/secret"
)

const (
	// longestText is the most bytes of a side that is compared line by line.
	longestText = 64 << 10
	// mostLines of a side: comparing takes as long as their product.
	mostLines = 2000
)

// IsSecret reports whether neither contents nor digests of a path may be reported: it is marked, a rule matches its path or
// either side, or one of the sides is a file that only its owner can read.
func IsSecret(it Item, marked secret.Paths, expected, actual []byte) bool {
	return isWhole(it, marked) || secret.Is(it.Name, string(expected)) || secret.Is(it.Name, string(actual))
}

// isWhole reports whether all of a path is secret, whatever it holds.
func isWhole(it Item, marked secret.Paths) bool {
	for _, e := range []host.Entry{it.Step.Before.Entry, it.Step.After.Entry} {
		if e.Kind == host.File && e.Mode&0o077 == 0 {
			return true
		}
	}
	return marked.Match(it.Name) || secret.Path(it.Name)
}

// Diff writes the difference of a path for people with the right to read root's files on the node: a head with what differs
// besides the contents, then a unified diff in which marks stand for secrets. A file that is secret as a whole is hidden, and
// what is no text is counted.
func Diff(v Verdict, config string, expected, actual []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", v.String())
	is, shall := v.Step.Before.Entry, v.Step.After.Entry
	if is.Mode != shall.Mode {
		fmt.Fprintf(&b, "# mode: expected %04o; received %04o\n", shall.Mode, is.Mode)
	}
	if is.Owner != shall.Owner {
		fmt.Fprintf(&b, "# owner: expected %s; received %s\n", owner(shall), owner(is))
	}
	if is.Digest == shall.Digest {
		return b.String()
	}
	fmt.Fprintf(&b, "--- %s (%s)\n+++ %s (this node)\n", v.Name, config, v.Name)
	switch {
	case v.Whole:
		b.WriteString("(hidden: the contents are secret)\n")
	case !readable(expected) || !readable(actual):
		fmt.Fprintf(&b, "(not shown: %d bytes expected, %d bytes received, which are no text or too long)\n", len(expected), len(actual))
	default:
		was, is := secret.MaskWithDigests(v.Name, string(expected)), secret.MaskWithDigests(v.Name, string(actual))
		if was.Text == is.Text { // the short digests are equal
			b.WriteString("(hidden: only secret values differ)\n")
		}
		b.WriteString(unified([]byte(was.Text), []byte(is.Text)))
	}
	return b.String()
}

// readable tells of text that can be compared line by line.
func readable(text []byte) bool {
	return len(text) <= longestText && bytes.Count(text, []byte("\n")) <= mostLines && utf8.Valid(text) && !bytes.ContainsRune(text, 0)
}

// unified is a unified diff without its head.
func unified(a, b []byte) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(a), B: lines(b), Context: 3})
	if err != nil { // it writes into memory
		return ""
	}
	return text
}

// lines splits text; a last line without an end is marked as diff does.
func lines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	all := strings.SplitAfter(string(text), "\n")
	if last := len(all) - 1; all[last] == "" {
		all = all[:last]
	} else {
		all[last] += "\n\\ No newline at end of file\n"
	}
	return all
}
