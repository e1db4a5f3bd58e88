package notify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Record returns the entry of status.sent for a state.
func Record(e Event, now time.Time) v1alpha1.SentState {
	return v1alpha1.SentState{Subject: e.Name(), ID: e.ID, Time: metav1.NewTime(now)}
}

// Recorded returns the record of sent states with one more state, sorted by subject.
func Recorded(sent []v1alpha1.SentState, s v1alpha1.SentState) []v1alpha1.SentState {
	out := slices.DeleteFunc(slices.Clone(sent), func(o v1alpha1.SentState) bool { return o.Subject == s.Subject })
	out = append(out, s)
	slices.SortFunc(out, func(a, b v1alpha1.SentState) int { return strings.Compare(a.Subject, b.Subject) })
	return out
}

// Check returns the mistakes in the spec of a Notification that the API server does not find.
func Check(spec v1alpha1.NotificationSpec) error {
	var errs []error
	if spec.Type.IsGitHost() {
		for field, set := range map[string]bool{
			"events": len(spec.Events) > 0, "pools": len(spec.Pools) > 0,
			"template": spec.Template != "", "quietHours": len(spec.QuietHours) > 0,
		} {
			if set {
				errs = append(errs, fmt.Errorf("spec.%s has no effect for type %s, which gets commit statuses: "+
					"remove it", field, spec.Type))
			}
		}
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return errors.Join(errs...)
	}
	_, _, err := Quiet(spec.QuietHours, time.Time{})
	_, errTemplate := ParseTemplate(spec.Template)
	return errors.Join(err, errTemplate)
}
