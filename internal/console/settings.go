package console

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// setting is something that people set on an object, such as its pause with the reason.
type setting struct {
	// is says for users how it is set now.
	is string
	// values of the object that say so
	values []string
}

// settings returns what the actions about an object set, end or replace. Nothing else of the object is among them: a
// controller and a daemon change its status all the time, which is no reason to refuse a form.
func (a *action) settings(x *request) []setting {
	switch a.kind {
	case kube.KindPool:
		return x.poolSettings()
	case kube.KindNode:
		return []setting{retrySetting(x.fleet.Node(x.name).Annotations)}
	}
	src, until := x.source(), ""
	if src.Spec.SuspendUntil != nil {
		until = src.Spec.SuspendUntil.UTC().Format(time.RFC3339)
	}
	is := "not suspended"
	if src.Spec.IsSuspended(x.fleet.Now) {
		is = "suspended" + fleet.SuspendedBy(src)
	}
	return []setting{{
		is: "it is " + is,
		values: []string{
			strconv.FormatBool(src.Spec.Suspend), until, src.Annotations[v1alpha1.SuspendedByAnnotation],
		},
	}}
}

func (x *request) poolSettings() []setting {
	p := x.pool().Object
	at := p.Annotations
	pause, hold, opening := "not paused", "not held", "not open outside of its maintenance windows"
	if p.Spec.Paused {
		pause = "paused" + fleet.PausedBy(p)
	}
	if held := fleet.HeldBy(p); held != "" {
		hold = "held" + held
	}
	if until, opened := fleet.OpenedUntil(at, x.fleet.Now); opened {
		opening = "open outside of its maintenance windows until " + fleet.Moment(until, nil, x.fleet.Now)
	}
	return []setting{
		{"it is " + pause, []string{
			strconv.FormatBool(p.Spec.Paused), at[v1alpha1.PausedByAnnotation], at[v1alpha1.PausedUntilAnnotation],
		}},
		{"it is " + hold, []string{
			at[v1alpha1.HoldAnnotation], at[v1alpha1.HeldRevisionAnnotation], at[v1alpha1.HeldByAnnotation],
			at[v1alpha1.HeldUntilAnnotation],
		}},
		{"it is " + opening, []string{at[v1alpha1.OpenUntilAnnotation]}},
		retrySetting(at),
	}
}

func retrySetting(annotations map[string]string) setting {
	return setting{"somebody requested a retry", []string{annotations[v1alpha1.RetryAnnotation]}}
}

// digest returns what a form carries of the settings that it shows: a part for each, so that a later form can say which
// of them changed.
func digest(all []setting) string {
	var parts []string
	for _, s := range all {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", s.values))
		parts = append(parts, hex.EncodeToString(sum[:8]))
	}
	return strings.Join(parts, ".")
}

// changedSince says which settings differ from those that the form showed; "" if none does. Without this check, a user
// who releases a pool would end a hold of which they never read.
func (a *action) changedSince(x *request) string {
	all := a.settings(x)
	now, then := strings.Split(digest(all), "."), strings.Split(x.form.Get(fieldState), ".")
	if slices.Equal(now, then) {
		return ""
	}
	if len(now) != len(then) {
		return "this form does not say which state it showed, so read it again before you send it."
	}
	var is []string
	for i, s := range all {
		if now[i] != then[i] {
			is = append(is, s.is)
		}
	}
	return a.subject(x) + " changed after you had opened this form, so read it again before you send it. Now " +
		strings.Join(is, ", and ") + "."
}
