package reconcile_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/source"
)

// TestHistoryPolicy: what becomes of a commit that may not descend from the one in force.
func TestHistoryPolicy(t *testing.T) {
	for sentence, tc := range map[string]struct {
		policy  v1alpha1.HistoryPolicy
		descent source.Descent
		applied bool
		says    string
	}{
		"an ordinary push goes through a block":             {v1alpha1.HistoryBlock, source.Descends, true, "applied revision main@sha1:"},
		"a rewritten branch is blocked, and says why":       {v1alpha1.HistoryBlock, source.Rewritten, false, "False|HistoryRewritten|"},
		"a block where history is not at hand is refused":   {v1alpha1.HistoryBlock, source.Unknown, false, "False|HistoryRewritten|the repository does not send the history between"},
		"a rewritten branch is applied with a warning":      {v1alpha1.HistoryWarn, source.Rewritten, true, "the history of the branch was rewritten"},
		"without history a warning has nothing to say":      {v1alpha1.HistoryWarn, source.Unknown, true, "applied revision main@sha1:"},
		"who allows everything is not even told":            {v1alpha1.HistoryAllow, source.Rewritten, true, "applied revision main@sha1:"},
		"a policy that is not set warns, as the default is": {"", source.Rewritten, true, "the history of the branch was rewritten"},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
				s.Spec.HistoryPolicy = tc.policy
			})
			old := w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			controllertest.Equal(t, "the first commit, which has nothing before it",
				w.GitSource().Status.AppliedRevision, old)
			w.repo.Descent = tc.descent
			revision := w.repo.Push("say more", controllertest.Files("worker/10-motd.bu=more"))
			w.tick()
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), tc.says)
			want := old
			if tc.applied {
				want = revision
			}
			controllertest.Equal(t, "the revision applied", w.GitSource().Status.AppliedRevision, want)
		})
	}
}

// TestRewrittenHistoryIsToldInThePast: once a rewritten commit is applied, nothing calls the earlier commit applied,
// however often the controller looks again.
func TestRewrittenHistoryIsToldInThePast(t *testing.T) {
	short := func(revision string) string { return revision[:len("main@sha1:")+8] }
	w := newWorld(t)
	old := w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
	w.follow()
	w.Events.Lines = nil
	w.repo.Descent = source.Rewritten
	revision := w.repo.Push("say more", controllertest.Files("worker/10-motd.bu=more"))
	want := short(revision) + " does not descend from " + short(old) + ", which it replaced: the history of the " +
		"branch was rewritten"
	for range 2 {
		w.tick()
		w.follow()
		controllertest.Equal(t, "Ready", w.Condition("Ready"), "True|Succeeded|applied revision "+revision+"; "+want)
		controllertest.Equal(t, "the warnings", strings.Join(w.GitSource().Status.Warnings, "\n"), want)
	}
	controllertest.Contains(t, "the event", strings.Join(w.Events.Lines, "\n"), "Warning HistoryRewritten: "+want)
}
