package machines

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// CompleteTokens offers the ids of the tokens that a user can still revoke, each with its purpose.
var CompleteTokens = kube.Complete(math.MaxInt, func(ctx context.Context, c client.Client, args []string) (out []string,
	err error,
) {
	all, err := ReadTokens(ctx, c, "")
	now := time.Now()
	for i := range all {
		if !slices.Contains(args, all[i].Name) && join.TokenState(&all[i], now) == join.Valid {
			_, what, _ := strings.Cut(Describe(&all[i], now), ": ")
			out = append(out, cobra.CompletionWithDesc(all[i].Name, what))
		}
	}
	return out, err
})

// tokenRow describes a token in a table.
type tokenRow struct {
	ID       string              `json:"id"`
	Pool     string              `json:"pool"`
	Node     string              `json:"node,omitempty"`
	State    string              `json:"state"`
	Expires  time.Time           `json:"expires"`
	Uses     int32               `json:"uses"`
	Used     int32               `json:"used"`
	LastUsed time.Time           `json:"lastUsed,omitzero"`
	Recent   []v1alpha1.TokenUse `json:"recent,omitempty"`
	Created  time.Time           `json:"created"`
}

// TokenRows returns the rows of a table of tokens. TokenRows never returns nil, so that JSON has an empty list if there
// are no tokens.
func TokenRows(all []v1alpha1.ProvisioningToken, now time.Time) []tokenRow {
	rows := []tokenRow{}
	for i := range all {
		t := &all[i]
		row := tokenRow{
			ID: t.Name, Pool: t.Spec.Pool, Node: t.Spec.Node, State: join.TokenState(t,
				now), Expires: t.Spec.Expires.Time,
			Uses: t.Spec.Uses, Used: t.Status.Used, Recent: t.Status.Recent, Created: t.CreationTimestamp.Time,
		}
		if t.Status.LastUsed != nil {
			row.LastUsed = t.Status.LastUsed.Time
		}
		rows = append(rows, row)
	}
	return rows
}

// TokenTable returns a table of the rows with their ages.
func TokenTable(rows []tokenRow, now time.Time) terminal.Table {
	t := terminal.Table{Head: []string{"ID", "POOL", "NODE", "STATE", "EXPIRES", "USED", "LAST USED", "FROM", "AGE"}}
	for _, r := range rows {
		node, expires, used, last, from := "any", "in "+lasting(r.Expires, now), fmt.Sprint(r.Used), "-", "-"
		if r.Node != "" {
			node = r.Node
		}
		if !now.Before(r.Expires) {
			expires = terminal.Age(r.Expires, now) + " ago"
		}
		if r.Uses > 0 {
			used = fmt.Sprintf("%d of %d", r.Used, r.Uses)
		}
		if !r.LastUsed.IsZero() {
			last = terminal.Age(r.LastUsed, now) + " ago"
		}
		if n := len(r.Recent); n > 0 {
			from = r.Recent[n-1].Address
		}
		t.Rows = append(t.Rows, []string{
			r.ID, r.Pool, node, r.State, expires, used, last, from,
			terminal.Age(r.Created, now),
		})
	}
	return t
}
