package forge_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/internal/forge/forgetest"
)

// TestStatusesOfACommit: each service gives back every state that was set, the newest of each context.
func TestStatusesOfACommit(t *testing.T) {
	for _, kind := range services {
		t.Run(string(kind), func(t *testing.T) {
			r := &forgetest.Pull{Kind: kind, Self: "bunsen"}
			c, ok := open(t, r).(forge.Commit)
			if !ok {
				t.Fatal("the client knows no commits")
			}
			for _, state := range []forge.State{
				forge.Pending, forge.Pending, forge.Success, forge.Failure,
				forge.Canceled,
			} {
				s := forge.Status{Context: "bunsen/prod/config/rollout", State: state, Description: "17/40"}
				if err := c.Status(t.Context(), s); err != nil {
					t.Fatalf("%s: %v", state, err)
				}
				got, err := c.Statuses(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]forge.PostedStatus{{Status: s}}, got, cmpopts.IgnoreFields(forge.PostedStatus{},
					"Time")); diff != "" {
					t.Error(diff)
				}
				if got[0].Time.IsZero() {
					t.Error("the time of the status is unknown")
				}
			}
			if n, err := c.MergedBy(t.Context()); n != 0 || err != nil {
				t.Errorf("an open pull request: %d, %v", n, err)
			}
			r.Merged = true
			if n, err := c.MergedBy(t.Context()); n != forgetest.Number || err != nil {
				t.Errorf("a merged pull request: %d, %v", n, err)
			}
		})
	}
}
