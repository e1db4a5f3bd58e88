package pointer

import (
	"errors"
	"fmt"
	"slices"

	v22 "github.com/coreos/ignition/config/v2_2"
	v30 "github.com/coreos/ignition/v2/config/v3_0"
	v31 "github.com/coreos/ignition/v2/config/v3_1"
	v32 "github.com/coreos/ignition/v2/config/v3_2"
	v33 "github.com/coreos/ignition/v2/config/v3_3"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/vcontext/report"

	"github.com/bunsen-os/bunsen/mcs"
)

// dialect is what a version of Ignition's spec can say.
type dialect struct {
	version mcs.Version
	// butane is the oldest version of variant fcos that gives it; empty where there is none.
	butane string
	// headers: a config can be asked for with headers, and be compressed. append: configs are appended, not merged.
	headers, append bool
	// accepts asks the version's own parser.
	accepts func([]byte) error
}

// dialects are the versions that can be written, oldest first: those that the server speaks.
var dialects = []dialect{
	{mcs.V2_2, "", false, true, accepts2},
	{mcs.V3_0, "1.0.0", false, false, accepts(v30.Parse)},
	{mcs.V3_1, "1.1.0", true, false, accepts(v31.Parse)},
	{mcs.V3_2, "1.2.0", true, false, accepts(v32.Parse)},
	{mcs.V3_3, "1.4.0", true, false, accepts(v33.Parse)},
	{mcs.V3_4, "1.5.0", true, false, accepts(v34.Parse)},
	{mcs.V3_5, "1.6.0", true, false, accepts(v35.Parse)},
}

// Versions are those that can be written, oldest first.
func Versions() []mcs.Version {
	out := make([]mcs.Version, len(dialects))
	for i, d := range dialects {
		out[i] = d.version
	}
	return out
}

func dialectOf(v mcs.Version) (dialect, bool) {
	i := slices.IndexFunc(dialects, func(d dialect) bool { return d.version == v })
	if i < 0 {
		return dialect{}, false
	}
	return dialects[i], true
}

func accepts[T any](parse func([]byte) (T, report.Report, error)) func([]byte) error {
	return func(raw []byte) error {
		_, found, err := parse(raw)
		if err != nil {
			return fmt.Errorf("%w: %s", err, found.String())
		}
		if len(found.Entries) > 0 { // a warning would stand in the log of every machine
			return errors.New(found.String())
		}
		return nil
	}
}

func accepts2(raw []byte) error {
	_, found, err := v22.Parse(raw)
	if err != nil {
		return fmt.Errorf("%w: %s", err, found.String())
	}
	if len(found.Entries) > 0 {
		return errors.New(found.String())
	}
	return nil
}
