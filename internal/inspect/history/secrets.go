package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// newSecrets is the subject of a rollout of new values of secrets, if the changes are not known.
const newSecrets = "new values of secrets"

// secretsRollout is a rollout that changed only the values of secrets.
type secretsRollout struct {
	// index is the index of its outcome in the pool's past outcomes, or currentRollout.
	index int
	asked v1alpha1.Requester
	// config is the rendered config. The values changed after one time and until another one.
	config       string
	after, until time.Time
}

// withSecretsRows adds a row for each rollout that changed only the values of secrets, above the rows about the commit
// that was applied at that time.
func withSecretsRows(f *fleet.Fleet, v *fleet.Pool, rows []Row, past []v1alpha1.RolloutOutcome) []Row {
	for _, s := range slices.Backward(secretsRollouts(v, past)) {
		at := slices.IndexFunc(rows, func(r Row) bool {
			return r.Rendered == s.config && r.Revision == s.asked.Revision
		})
		if at < 0 {
			at = slices.IndexFunc(rows, func(r Row) bool { return r.Rendered == s.config })
		}
		row := rolloutRow(f, s.asked, s.config)
		row.API, row.After, row.rollout, row.NewSecrets = nil, nil, s.index, true
		row.Secrets = fleet.SecretsChangedIn(f, s.config, s.after, s.until)
		rows = slices.Insert(rows, max(at, 0), row)
	}
	return rows
}

// secretsRollouts returns the rollouts that changed only the values of secrets, newest first.
func secretsRollouts(v *fleet.Pool, past []v1alpha1.RolloutOutcome) []secretsRollout {
	all := past
	if r := v.Facts.Care.Record; r.Config != "" && r.Target() == v.Facts.Target {
		current := v1alpha1.RolloutOutcome{Requester: r.Requester, Config: r.Config, Secrets: r.Secrets, Began: r.Began}
		all = append([]v1alpha1.RolloutOutcome{current}, past...)
	}
	var out []secretsRollout
	for i := 0; i+1 < len(all); i++ {
		o, before := all[i], all[i+1]
		if o.Config != before.Config || o.Secrets == before.Secrets || before.Secrets == "" {
			continue
		}
		s := secretsRollout{
			index: i - (len(all) - len(past)), asked: o.Requester, config: o.Config,
			after: before.Began.Time,
		}
		if s.index >= 0 {
			s.until = o.Began.Time
		}
		out = append(out, s)
	}
	return out
}

// secretsSubject names the newest change of secrets, and how many more there are.
func secretsSubject(changes []v1alpha1.SecretChange) string {
	c := changes[0]
	c.Manager = ""
	text := fleet.ChangeText(c)
	if more := len(changes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
