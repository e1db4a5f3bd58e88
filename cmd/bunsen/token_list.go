package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
	"github.com/bunsen-os/bunsen/mcs/token"
)

func tokenListCommand() *cobra.Command {
	var t target
	var out output
	var pool string
	cmd := &cobra.Command{
		Use: "list", Short: "List the tokens: for whom, until when, how often and by whom they were used",
		Long: `List the tokens, newest first. STATE is good, expired, used up or revoked; USED how often a config was served, and of how many
times; FROM the address that asked last. The tokens themselves are not kept anywhere, and cannot be listed.`,
		Example: `  bunsen token list
  bunsen token list --pool worker -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			all, err := readTokens(cmd.Context(), c, pool)
			if err != nil {
				return provisioning(err)
			}
			if len(all) == 0 && pool != "" { // a pool that is gone may have tokens still
				if pools, err := listNames(cmd.Context(), c, aPool); err == nil {
					if err := among(pools, pool); err != nil {
						return err
					}
				}
			}
			now := time.Now()
			rows := tokenRows(all, now)
			text := tokenTable(rows, now).String()
			if text == "" {
				text = "No tokens here; `bunsen token create --pool NAME` makes one.\n"
			}
			return out.print(cmd.OutOrStdout(), harmless(text), rows)
		},
	}
	t.flags(cmd)
	noFile(cmd, "the file itself lists its tokens; to revoke one edit the file: `revoked: true` in its spec")
	out.flags(cmd)
	cmd.Flags().StringVar(&pool, "pool", "", "list the tokens of this pool only")
	_ = cmd.RegisterFlagCompletionFunc("pool", t.completePools)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// tokenRow is what is known of a token.
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

// tokenRows is never nil, so that data of nothing is an empty list.
func tokenRows(all []v1alpha1.ProvisioningToken, now time.Time) []tokenRow {
	rows := []tokenRow{}
	for i := range all {
		t := &all[i]
		row := tokenRow{
			ID: t.Name, Pool: t.Spec.Pool, Node: t.Spec.Node, State: token.State(t, now), Expires: t.Spec.Expires.Time,
			Uses: t.Spec.Uses, Used: t.Status.Used, Recent: t.Status.Recent, Created: t.CreationTimestamp.Time,
		}
		if t.Status.LastUsed != nil {
			row.LastUsed = t.Status.LastUsed.Time
		}
		rows = append(rows, row)
	}
	return rows
}

func tokenTable(rows []tokenRow, now time.Time) inspect.Table {
	t := inspect.Table{Head: []string{"ID", "POOL", "NODE", "STATE", "EXPIRES", "USED", "LAST USED", "FROM", "AGE"}}
	for _, r := range rows {
		node, expires, used, last, from := "any", "in "+lasting(r.Expires, now), fmt.Sprint(r.Used), "-", "-"
		if r.Node != "" {
			node = r.Node
		}
		if !now.Before(r.Expires) {
			expires = inspect.Age(r.Expires, now) + " ago"
		}
		if r.Uses > 0 {
			used = fmt.Sprintf("%d of %d", r.Used, r.Uses)
		}
		if !r.LastUsed.IsZero() {
			last = inspect.Age(r.LastUsed, now) + " ago"
		}
		if n := len(r.Recent); n > 0 {
			from = r.Recent[n-1].Address
		}
		t.Rows = append(t.Rows, []string{r.ID, r.Pool, node, r.State, expires, used, last, from, inspect.Age(r.Created, now)})
	}
	return t
}
