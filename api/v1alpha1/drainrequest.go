package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"
)

// DrainRequest is a value of DesiredDrainAnnotation or LastAppliedDrainAnnotation: `drain-<rendered>`,
// `uncordon-<rendered>`, or `undone-<rendered>` for a drain that somebody undid. Each further drain for the same config
// has a number, as in `drain-<rendered>_2`, so that an acknowledgement is about one drain only. The zero value is no
// request.
type DrainRequest struct {
	// Verb is DrainVerb, UncordonVerb or UndoneVerb; empty for no request.
	Verb string
	// Config is the rendered config for which the daemon requests the drain or the uncordon.
	Config string
	// Attempt counts the drains for the config, from 0.
	Attempt int
}

// String returns the request in the form of the annotation; empty for the zero value.
func (r DrainRequest) String() string {
	switch {
	case r.Verb == "":
		return ""
	case r.Attempt == 0:
		return r.Verb + "-" + r.Config
	}
	return fmt.Sprintf("%s-%s_%d", r.Verb, r.Config, r.Attempt)
}

// ParseDrainRequest parses a value of the annotations; false for a text that is no request.
func ParseDrainRequest(text string) (DrainRequest, bool) {
	verb, config, _ := strings.Cut(text, "-")
	config, number, numbered := strings.Cut(config, "_")
	r := DrainRequest{Verb: verb, Config: config}
	if numbered {
		r.Attempt, _ = strconv.Atoi(number) //nolint:errcheck // the comparison below refuses what is no number
	}
	known := verb == DrainVerb || verb == UncordonVerb || verb == UndoneVerb
	return r, known && config != "" && r.Attempt >= 0 && r.String() == text
}

// Undone returns the value of LastAppliedDrainAnnotation for an acknowledged drain that somebody undid.
func (r DrainRequest) Undone() DrainRequest {
	r.Verb = UndoneVerb
	return r
}

// PendingDrain returns the request that the controller has to carry out; the zero value for none. The error is about a
// request in another form.
func PendingDrain(desired, lastApplied string) (DrainRequest, error) {
	if desired == "" || desired == lastApplied {
		return DrainRequest{}, nil
	}
	r, ok := ParseDrainRequest(desired)
	if !ok || r.Verb == UndoneVerb {
		return DrainRequest{}, fmt.Errorf("reading annotation %s: %q is neither %s-<config> nor %s-<config>; the "+
			"machine-config-daemon of this node is of another version", DesiredDrainAnnotation, desired, DrainVerb,
			UncordonVerb)
	}
	if r.Verb == DrainVerb && lastApplied == r.Undone().String() {
		return DrainRequest{}, nil
	}
	return r, nil
}
