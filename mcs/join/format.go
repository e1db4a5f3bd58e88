package join

import (
	"slices"

	"github.com/bunsen-os/bunsen/mcs"
)

// format says what a version of the Ignition spec supports in a pointer config.
type format struct {
	version mcs.Version
	// butane is the oldest version of the Butane variant fcos that Butane translates to the Ignition version; empty if
	// there is none.
	butane string
	// headers is true if Ignition can request a config with headers, and decompress it. append is true if the version
	// appends configs instead of merging them.
	headers, append bool
}

// formats are the versions of pointer configs, oldest first. The server serves the same versions.
var formats = []format{
	{mcs.V2_2, "", false, true},
	{mcs.V3_0, "1.0.0", false, false},
	{mcs.V3_1, "1.1.0", true, false},
	{mcs.V3_2, "1.2.0", true, false},
	{mcs.V3_3, "1.4.0", true, false},
	{mcs.V3_4, "1.5.0", true, false},
	{mcs.V3_5, "1.6.0", true, false},
}

// PointerVersions returns the Ignition versions that a pointer config can have, oldest first.
func PointerVersions() []mcs.Version {
	out := make([]mcs.Version, len(formats))
	for i, d := range formats {
		out[i] = d.version
	}
	return out
}

func formatOf(v mcs.Version) (format, bool) {
	i := slices.IndexFunc(formats, func(d format) bool { return d.version == v })
	if i < 0 {
		return format{}, false
	}
	return formats[i], true
}
