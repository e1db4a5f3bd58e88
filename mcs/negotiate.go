package mcs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-semver/semver"
)

// subtype is the media subtype with which Ignition asks for a config. The main type is not looked at.
const subtype = "vnd.coreos.ignition+json"

// Negotiate picks the version to serve for an Accept header. The entries are tried from the highest q down, in the
// header's order where q is equal; the first of Ignition's subtype with a readable version decides, and no later one is
// tried when that version is not served. A header that names no readable version gets Newest. The error is an
// *UnsupportedError.
func Negotiate(accept string) (Version, error) {
	asked := asks(accept)
	slices.SortStableFunc(asked, func(a, b ask) int {
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
			return serve(a)
		}
	}
	return Newest, nil
}

func serve(a ask) (Version, error) {
	major, minor := a.version.Major, a.version.Minor
	switch {
	case major == 3 && minor < int64(len(minors)):
		return minors[minor], nil
	case major == 3:
		return Newest, nil
	case major == 2 && minor >= 2 && minor <= 9:
		return V2_2, nil
	}
	return "", &UnsupportedError{Asked: a.text}
}

// minors has every version of 3.x, by its minor number.
var minors = []Version{V3_0, V3_1, V3_2, V3_3, V3_4, V3_5}

// ask is one entry of an Accept header.
type ask struct {
	q       float64
	version *semver.Version // nil when the entry names no version of Ignition
	text    string          // version as written
}

func asks(accept string) []ask {
	var all []ask
	for entry := range strings.SplitSeq(accept, ",") {
		media, params, _ := strings.Cut(entry, ";")
		_, sub, ok := strings.Cut(strings.TrimSpace(media), "/")
		if !ok {
			continue
		}
		a := ask{q: 1}
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

// quality reads q; what is no number from 0 to 1 counts as 1.
func quality(text string) float64 {
	if q, err := strconv.ParseFloat(text, 64); err == nil && q >= 0 && q <= 1 {
		return q
	}
	return 1
}
