package trust

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// maxWhy is the longest reason of a report, in characters.
const maxWhy = 300

// Report returns the report of a machine that has the target. failed is why it does not have it; the machine then has
// what the daemon wrote before.
func (t *Target) Report(failed string, now time.Time) v1alpha1.TrustReport {
	r := v1alpha1.TrustReport{Revision: t.Answer.Revision, Files: len(t.files) - len(t.Blocked), Failed: short(failed)}
	if failed != "" {
		r.Revision, r.Files = t.Kept.Answer.Revision, len(t.Kept.Files)
	}
	r.Conflicts, r.More = capped(t.Conflicts, r.More)
	r.Blocked, r.More = capped(t.Blocked, r.More)
	for i := range r.Blocked {
		r.Blocked[i].Why = short(r.Blocked[i].Why)
	}
	var expiring []v1alpha1.TrustExpiry
	for _, f := range t.Answer.Files {
		if !f.Expires.IsZero() && f.Expires.Before(now.Add(v1alpha1.TrustExpiresSoon)) {
			expiring = append(expiring, v1alpha1.TrustExpiry{
				Path: f.Path, From: f.From,
				Expires: f.Expires.UTC().Truncate(time.Second),
			})
		}
	}
	slices.SortStableFunc(expiring, func(a, b v1alpha1.TrustExpiry) int { return a.Expires.Compare(b.Expires) })
	r.Expiring, r.More = capped(expiring, r.More)
	return r
}

// capped returns the first members of a list, and adds the number of the others.
func capped[T any](all []T, more int) ([]T, int) {
	if n := len(all) - v1alpha1.MaxTrustReport; n > 0 {
		return slices.Clone(all[:v1alpha1.MaxTrustReport]), more + n
	}
	return slices.Clone(all), more
}

func short(text string) string {
	return safetext.Short(text, maxWhy)
}

// Text returns a report as the value of v1alpha1.TrustReportAnnotation; "" for a machine without files of trust.
func Text(r v1alpha1.TrustReport) string {
	if r.Files == 0 && len(r.Conflicts)+len(r.Blocked)+len(r.Expiring) == 0 && r.Failed == "" {
		return ""
	}
	text, _ := json.Marshal(r) //nolint:errchkjson // text, numbers and times
	return string(text)
}
