package mcs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-semver/semver"
)

// subtype: the server ignores the main type.
const subtype = "vnd.coreos.ignition+json"

// Negotiate selects the version to serve for an Accept header, by its entries of Ignition's subtype with a readable
// version: the one with the highest q, or the first of them, decides. If the server does not support it, the error is
// an *UnsupportedVersionError. Without such an entry, the version is Newest.
func Negotiate(accept string) (Version, error) {
	asked := parseAccept(accept)
	slices.SortStableFunc(asked, func(a, b acceptEntry) int {
		switch {
		case a.q > b.q:
			return -1
		case a.q < b.q:
			return 1
		}
		return 0
	})
	for _, a := range asked {
		if a.version != nil {
			return versionToServe(a)
		}
	}
	return Newest, nil
}

func versionToServe(a acceptEntry) (Version, error) {
	major, minor := a.version.Major, a.version.Minor
	switch {
	case major == 3 && minor < int64(len(minors)):
		return minors[minor], nil
	case major == 3:
		return Newest, nil
	case major == 2 && minor >= 2 && minor <= 9:
		return V2_2, nil
	}
	return "", &UnsupportedVersionError{Asked: a.text}
}

// minors: 3.x, by the minor number
var minors = []Version{V3_0, V3_1, V3_2, V3_3, V3_4, V3_5}

type acceptEntry struct {
	q       float64
	version *semver.Version // version is nil if the entry names no version of Ignition.
	text    string          // text is the version as the client wrote it.
}

func parseAccept(accept string) []acceptEntry {
	var all []acceptEntry
	for entry := range strings.SplitSeq(accept, ",") {
		media, params, _ := strings.Cut(entry, ";")
		_, sub, ok := strings.Cut(strings.TrimSpace(media), "/")
		if !ok {
			continue
		}
		a := acceptEntry{q: 1}
		for param := range strings.SplitSeq(params, ";") {
			key, value, _ := strings.Cut(param, "=")
			value = strings.TrimSpace(value)
			switch strings.TrimSpace(key) {
			case "q":
				a.q = quality(value)
			case "version":
				if v, err := semver.NewVersion(value); err == nil && sub == subtype && v.Minor >= 0 {
					a.version, a.text = v, value
				}
			}
		}
		all = append(all, a)
	}
	return all
}

// quality parses q; an invalid value counts as 1.
func quality(text string) float64 {
	if q, err := strconv.ParseFloat(text, 64); err == nil && q >= 0 && q <= 1 {
		return q
	}
	return 1
}

// AcceptsGzip reports whether to compress a response, by its Accept-Encoding header (RFC 9110, section 12.5.3): gzip
// needs at least the weight of identity. A client that names no coding gets an uncompressed response, because it may
// not support gzip. Invalid entries are ignored.
func AcceptsGzip(accept string) (gzip bool) {
	const unnamed = -1
	zipped, plain, any := float64(unnamed), float64(unnamed), float64(unnamed)
	for entry := range strings.SplitSeq(accept, ",") {
		coding, params, _ := strings.Cut(entry, ";")
		q, ok := parseWeight(params)
		if !ok {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip": // The names gzip and x-gzip mean the same coding.
			zipped = max(zipped, q)
		case "identity":
			plain = max(plain, q)
		case "*":
			any = max(any, q)
		}
	}
	if plain == unnamed && any == 0 {
		plain = 0 // An entry * with the weight 0 also excludes identity.
	}
	if zipped == unnamed && plain == 0 {
		zipped = any // The header excludes identity, so the entry * can only mean gzip.
	}
	return zipped > 0 && zipped >= plain
}

// parseWeight reads the weight q of a coding. No other parameter is valid.
func parseWeight(params string) (float64, bool) {
	name, value, found := strings.Cut(params, "=")
	if !found {
		return 1, strings.TrimSpace(params) == ""
	}
	if !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 0, false
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return q, err == nil && q >= 0 && q <= 1
}
