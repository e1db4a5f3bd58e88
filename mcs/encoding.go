package mcs

import (
	"strconv"
	"strings"
)

// Encodings tells whether to answer in gzip, by an Accept-Encoding header (RFC 9110, section 12.5.3): where gzip is named
// and no less welcome than the text as it is. A client that names no encoding gets that text, and so does one that takes
// any: what it did not ask for by name may not be what it can read. An entry that is no entry counts for nothing.
func Encodings(accept string) (gzip bool) {
	const unnamed = -1
	zipped, plain, any := float64(unnamed), float64(unnamed), float64(unnamed)
	for entry := range strings.SplitSeq(accept, ",") {
		coding, params, _ := strings.Cut(entry, ";")
		q, ok := weight(params)
		if !ok {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip": // one coding with two names
			zipped = max(zipped, q)
		case "identity":
			plain = max(plain, q)
		case "*":
			any = max(any, q)
		}
	}
	if plain == unnamed && any == 0 {
		plain = 0 // excluded with all that is not named
	}
	if zipped == unnamed && plain == 0 {
		zipped = any // whatever it is, but not the text
	}
	return zipped > 0 && zipped >= plain
}

// weight reads the parameters of a coding, which has none but q.
func weight(params string) (float64, bool) {
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
