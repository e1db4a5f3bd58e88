package mcs

import (
	"strconv"
	"strings"
)

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
