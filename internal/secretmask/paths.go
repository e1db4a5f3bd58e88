package secretmask

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Paths are paths and units that are secret as a whole: absolute paths or unit names in the form of path.Match, or a
// path with a trailing /, for everything below it. The zero value marks nothing.
type Paths []string

// ParsePaths reads patterns with commas or blanks between them. The error names every one that can never match, and the
// others are returned.
func ParsePaths(list string) (Paths, error) {
	var out Paths
	var bad []error
	for _, p := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		switch _, err := path.Match(p, ""); {
		case err != nil:
			bad = append(bad, fmt.Errorf("pattern %q: %w", p, err))
		case !strings.HasPrefix(p, "/") && (strings.Contains(p, "/") || !strings.Contains(p, ".")):
			bad = append(bad, fmt.Errorf("pattern %q is neither an absolute path (/etc/app/*.conf, /etc/app/) nor a "+
				"unit's name (app.service)", p))
		default:
			out = append(out, p)
		}
	}
	return out, errors.Join(bad...)
}

// Join returns the patterns of several lists as one text for ParsePaths, sorted, each once.
func Join(lists ...Paths) string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// unitDir has the units of a config on a node.
const unitDir = "/etc/systemd/system/"

// Match reports whether a path, the name of a unit or a drop-in (app.service.d/10-a.conf) is marked. A mark of a unit
// covers the paths of its file and its drop-ins, and a mark of such a path covers the unit.
func (p Paths) Match(name string) bool {
	if name == "" {
		return false
	}
	for _, n := range namesOf(name) {
		if p.match(n) {
			return true
		}
	}
	return false
}

// namesOf returns the names by which a path or a part of a unit may be marked.
func namesOf(name string) []string {
	at := name
	if !strings.HasPrefix(name, "/") {
		at = unitDir + name
	}
	names := []string{at}
	if rest, isUnit := strings.CutPrefix(at, unitDir); isUnit {
		first, _, nested := strings.Cut(rest, "/")
		unit, hasDropins := strings.CutSuffix(first, ".d")
		switch {
		case !nested:
			names = append(names, rest)
		case hasDropins:
			names = append(names, unit)
		}
	}
	return names
}

func (p Paths) match(name string) bool {
	for _, pattern := range p {
		if below, all := strings.CutSuffix(pattern, "/"); all && strings.HasPrefix(name, below+"/") {
			return true
		}
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}

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
	// the content, or a mark in its place
	Text string
	// Text is a mark.
	Hidden bool
}

// Mask hides a content whose path, unit or drop-in is marked, and shows every other one unchanged.
func (p Paths) Mask(name, content string) Masked {
	if content == "" || !p.Match(name) {
		return Masked{Text: content}
	}
	return Masked{Text: HiddenWithDigest(content), Hidden: true}
}
