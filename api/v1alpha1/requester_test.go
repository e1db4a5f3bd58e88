package v1alpha1_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestRequesterText: who asked for a config, in the words of events, conditions and reasons.
func TestRequesterText(t *testing.T) {
	made := []v1alpha1.APIChange{{Kind: "MachineConfig", Name: "99-by-hand", Action: v1alpha1.APICreated}}
	gone := []v1alpha1.APIChange{{Kind: "MachineConfig", Name: "99-by-hand", Action: v1alpha1.APIDeleted}}
	failed := &v1alpha1.CommitRef{Revision: "main@sha1:bb", Subject: "time: two pools"}
	for sentence, c := range map[string]struct {
		asked v1alpha1.Requester
		want  string
	}{
		"nobody knows":                  {v1alpha1.Requester{}, ""},
		"a commit":                      {v1alpha1.Requester{Revision: "main@sha1:aa", Subject: "motd"}, "main@sha1:aa motd"},
		"a user":                        {v1alpha1.Requester{Revision: "main@sha1:aa", API: made}, "MachineConfig 99-by-hand, made through the API"},
		"a user and a commit":           {v1alpha1.Requester{Revision: "main@sha1:aa", Subject: "motd", API: made, AlsoCommit: true}, "MachineConfig 99-by-hand, made through the API; main@sha1:aa motd"},
		"a user who took a change back": {v1alpha1.Requester{Revision: "main@sha1:aa", Subject: "motd", After: gone}, "main@sha1:aa motd after MachineConfig 99-by-hand was deleted through the API"},
		"a user, on a commit with which the pool was not healthy": {
			v1alpha1.Requester{Revision: "main@sha1:bb", API: made, Unproven: failed},
			"MachineConfig 99-by-hand, made through the API; on main@sha1:bb time: two pools, with which the pool " +
				"was not healthy",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			write := func(c v1alpha1.CommitRef) string {
				if c.Subject == "" {
					return c.Revision
				}
				return c.Revision + " " + c.Subject
			}
			if got := c.asked.Text(write); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
