package view

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"slices"
	"strings"
)

// Region is an element of a page with an id of its own. A browser replaces it as a whole, or only some of its parts.
type Region struct {
	// ID is the element's attribute `id`, unique in a page.
	ID string
	// Open is the HTML up to the first part, with the element's start tag, whose first attribute is `id`.
	Open string
	// Parts can change alone.
	Parts []Region
	Close string
}

// HTML returns the whole element.
func (r Region) HTML() string {
	var b strings.Builder
	r.write(&b)
	return b.String()
}

func (r Region) write(b *strings.Builder) {
	b.WriteString(r.Open)
	for _, p := range r.Parts {
		p.write(b)
	}
	b.WriteString(r.Close)
}

// ChangedRegions returns the smallest regions that turn the page before into the page after. Both have the same regions
// at the top, in the same order. A top region that only the new page has is returned; one that only the old page has is
// not.
func ChangedRegions(before, after []Region) []Region {
	var out []Region
	for i := range after {
		at := slices.IndexFunc(before, func(r Region) bool { return r.ID == after[i].ID })
		if at < 0 {
			out = append(out, after[i])
			continue
		}
		out = appendChanged(out, &before[at], &after[i])
	}
	return out
}

// appendChanged appends what changed in one region: the region itself if its own HTML or the list of its parts changed,
// else its parts.
func appendChanged(out []Region, before, after *Region) []Region {
	sameParts := slices.EqualFunc(before.Parts, after.Parts, func(a, b Region) bool { return a.ID == b.ID })
	if before.Open != after.Open || before.Close != after.Close || !sameParts {
		return append(out, *after)
	}
	for i := range after.Parts {
		out = appendChanged(out, &before.Parts[i], &after.Parts[i])
	}
	return out
}

// SwapRegions returns the regions as HTML with htmx's attribute `hx-swap-oob`, so that each replaces the element with
// its id.
func SwapRegions(regions []Region) string {
	var b strings.Builder
	for _, r := range regions {
		attribute := `id="` + html.EscapeString(r.ID) + `"`
		open := strings.Replace(r.Open, attribute, attribute+` hx-swap-oob="true"`, 1)
		Region{Open: open, Parts: r.Parts, Close: r.Close}.write(&b)
	}
	return b.String()
}

// digestBytes is the length of the digest of one region: an attacker needs 2^48 tries for a wrong match, which shows
// only an earlier state.
const digestBytes = 12

// RegionDigest returns a short text by which RegionsSince recognizes the regions at the top that did not change.
func RegionDigest(regions []Region) string {
	digests := make([]string, len(regions))
	for i, r := range regions {
		digests[i] = r.digest()
	}
	return strings.Join(digests, ".")
}

func (r Region) digest() string {
	sum := sha256.Sum256([]byte(r.HTML()))
	return base64.RawURLEncoding.EncodeToString(sum[:digestBytes])
}

// RegionsSince returns the regions at the top that are not in a page with this digest. The digest may be any text.
func RegionsSince(digest string, after []Region) []Region {
	var out []Region
	known := strings.Split(digest, ".")
	for _, r := range after {
		if !slices.Contains(known, r.digest()) {
			out = append(out, r)
		}
	}
	return out
}

// Problem draws why a page is not current, as the first region of every page; an empty region for an empty reason.
func Problem(reason string) Region { return draw("problem", "problem", reason) }

// Note draws a page that is only a text, such as an error.
func Note(text string) []Region { return []Region{draw("note", "note", text)} }

// SignInForm is the form of signing in.
type SignInForm struct {
	// Problem says why the last token was not accepted, or is empty.
	Problem string
	// Next opens after the user has signed in.
	Next string
	// Provider is the path to an OpenID provider; empty for none.
	Provider string
}

// SignIn draws the form.
func SignIn(f SignInForm) []Region { return []Region{draw("sign-in", "sign-in", f)} }
