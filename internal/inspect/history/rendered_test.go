package history

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestWhoChangedAnItem: the one who wrote the commit, and not who brought it to the pool again.
func TestWhoChangedAnItem(t *testing.T) {
	row := Row{
		Revision: "main@sha1:" + strings.Repeat("a", 40), Subject: "motd: say hello", Author: "Ada <ada@example.com>",
	}
	by := func(change func(*Row)) *Row {
		r := row
		change(&r)
		return &r
	}
	for sentence, tc := range map[string]struct {
		row  *Row
		want string
	}{
		"a push": {by(func(r *Row) { r.Cause = v1alpha1.RolloutCausePush }), `aaaaaaaa "motd: say hello" Ada`},
		"a release": {
			by(func(r *Row) { r.Cause, r.By = v1alpha1.RolloutCauseRelease, "eve" }),
			`aaaaaaaa "motd: say hello" Ada`,
		},
		"a hold": {
			by(func(r *Row) { r.Cause, r.By = v1alpha1.RolloutCauseHold, "eve: bad" }),
			`aaaaaaaa "motd: say hello" Ada`,
		},
		"a change through the API that was taken back": {
			by(func(r *Row) {
				r.Cause = v1alpha1.RolloutCauseAPI
				r.After = []v1alpha1.APIChange{{Kind: "MachineConfig", Name: "99-hand", Action: "Deleted", Manager: "kubectl"}}
			}),
			`API "Deleted MachineConfig 99-hand" kubectl`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := (TraceItem{Changed: tc.row}).changedBy(); got != tc.want {
				t.Errorf("it says %s, want %s", got, tc.want)
			}
		})
	}
}
