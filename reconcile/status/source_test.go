package status_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

func applied(revision string) *status.Applied {
	return &status.Applied{
		Commit: v1alpha1.CommitInfo{
			Revision: revision, Subject: "chrony: use the pool", Author: "A <a@example.com>",
			Time: metav1.NewTime(noon),
		},
		Inventory: []v1alpha1.InventoryEntry{{Kind: "MachineConfig", Name: "10-worker-chrony", Digest: "sha256:aa"}},
	}
}

func showSource(s v1alpha1.GitSourceStatus) string {
	var b strings.Builder
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, "%s=%s|%s|%s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

// TestSourceConditions has the conditions of a GitSource after each kind of attempt.
func TestSourceConditions(t *testing.T) {
	before := status.Source(v1alpha1.GitSourceStatus{}, status.SourceFacts{
		Generation: 1, Observed: "main@sha1:aa",
		Applied: applied("main@sha1:aa"),
	}, noon)
	bad := errors.New("pools/worker/10-chrony.bu:12:7: mode must be octal")
	for sentence, tc := range map[string]struct {
		old   v1alpha1.GitSourceStatus
		facts status.SourceFacts
		want  string
	}{
		"a revision was applied":           {v1alpha1.GitSourceStatus{}, status.SourceFacts{Applied: applied("main@sha1:aa")}, "Ready=True|Succeeded|applied revision main@sha1:aa\n"},
		"nothing was new":                  {before, status.SourceFacts{Observed: "main@sha1:aa"}, "Ready=True|Succeeded|applied revision main@sha1:aa\n"},
		"it succeeded, with a warning":     {before, status.SourceFacts{Warnings: []string{"history of main was rewritten"}}, "Ready=True|Succeeded|applied revision main@sha1:aa; history of main was rewritten\n"},
		"the remote did not answer":        {before, status.SourceFacts{Err: fault.NewRetry(v1alpha1.ReasonUnreachable, errors.New("listing refs: no route to host"))}, "Ready=False|RepositoryUnreachable|listing refs: no route to host\nReconciling=True|RepositoryUnreachable|the controller will try again\n"},
		"a commit cannot be transpiled":    {before, status.SourceFacts{Observed: "main@sha1:bb", Err: fault.NewStalled(v1alpha1.ReasonTranspileFailed, bad)}, "Ready=False|TranspileFailed|" + bad.Error() + "\nStalled=True|TranspileFailed|" + bad.Error() + "\n"},
		"it waits for something else":      {before, status.SourceFacts{Err: fault.NewWait(v1alpha1.ReasonPoolMissing, errors.New("pool gpu is not there yet"))}, "Ready=Unknown|PoolMissing|pool gpu is not there yet\nReconciling=True|PoolMissing|pool gpu is not there yet\n"},
		"an unmarked error is tried again": {before, status.SourceFacts{Err: errors.New("conflict")}, "Ready=False|ApplyFailed|conflict\nReconciling=True|ApplyFailed|the controller will try again\n"},
		"a mark without a reason gets one": {before, status.SourceFacts{Err: fault.NewRetry("", errors.New("conflict"))}, "Ready=False|ApplyFailed|conflict\nReconciling=True|ApplyFailed|the controller will try again\n"},
		"it is at work":                    {before, status.SourceFacts{Doing: "fetching main@sha1:bb"}, "Ready=Unknown|Progressing|fetching main@sha1:bb\nReconciling=True|Progressing|fetching main@sha1:bb\n"},
		"it is suspended after a success":  {before, status.SourceFacts{Suspended: true}, "Ready=True|Suspended|suspended; revision main@sha1:aa stays applied\n"},
		"it was suspended from the start":  {v1alpha1.GitSourceStatus{}, status.SourceFacts{Suspended: true}, "Ready=False|Suspended|suspended before any revision was applied\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			tc.facts.Generation = 2
			got := status.Source(tc.old, tc.facts, noon)
			if diff := gocmp.Diff(tc.want, showSource(got)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got.ObservedGeneration != 2 || got.Conditions[0].ObservedGeneration != 2 {
				t.Errorf("generation %d, %d, want 2", got.ObservedGeneration, got.Conditions[0].ObservedGeneration)
			}
		})
	}
}

// TestSourceVerified: the condition is about the last commit that the controller read, and stays while it reads none.
func TestSourceVerified(t *testing.T) {
	signed := applied("main@sha1:aa")
	signed.Commit.VerifiedBy = "ssh SHA256:x (ada)"
	before := status.Source(v1alpha1.GitSourceStatus{}, status.SourceFacts{
		Generation: 1, Verify: true,
		Observed: "main@sha1:aa", Applied: signed, Tried: &signed.Commit,
	}, noon)
	isSigned := "SourceVerified=True|SignatureValid|revision main@sha1:aa is signed by ssh SHA256:x (ada)\n"
	missing := fault.NewStalled(v1alpha1.ReasonSignature,
		errors.New("verifying main@sha1:bb: the commit is not signed"))
	refused := status.Source(before, status.SourceFacts{
		Generation: 1, Verify: true, Observed: "main@sha1:bb",
		Err: missing,
	}, noon)
	isRefused := "SourceVerified=False|SignatureMissing|verifying main@sha1:bb: the commit is not signed\n"
	next := v1alpha1.CommitInfo{Revision: "main@sha1:cc", VerifiedBy: "ssh SHA256:y (bob)"}
	for sentence, tc := range map[string]struct {
		old   v1alpha1.GitSourceStatus
		facts status.SourceFacts
		want  string
	}{
		"a signed commit was applied":                {v1alpha1.GitSourceStatus{}, status.SourceFacts{Verify: true, Observed: "main@sha1:aa", Applied: signed, Tried: &signed.Commit}, isSigned},
		"nothing was new":                            {before, status.SourceFacts{Verify: true, Observed: "main@sha1:aa"}, isSigned},
		"a commit is not signed":                     {before, status.SourceFacts{Verify: true, Observed: "main@sha1:bb", Err: missing}, isRefused},
		"the Secret with the keys is away":           {before, status.SourceFacts{Verify: true, Err: fault.NewRetry(v1alpha1.ReasonSignature, errors.New("reading Secret keys: not found"))}, "SourceVerified=False|SignatureMissing|reading Secret keys: not found\n"},
		"the remote does not answer":                 {before, status.SourceFacts{Verify: true, Err: fault.NewRetry(v1alpha1.ReasonUnreachable, errors.New("no route"))}, isSigned},
		"the remote does not answer after a refusal": {refused, status.SourceFacts{Verify: true, Err: fault.NewRetry(v1alpha1.ReasonUnreachable, errors.New("no route"))}, isRefused},
		"the branch returned to the applied commit":  {refused, status.SourceFacts{Verify: true, Observed: "main@sha1:aa"}, isSigned},
		"a signed commit cannot be transpiled":       {before, status.SourceFacts{Verify: true, Observed: "main@sha1:cc", Tried: &next, Err: fault.NewStalled(v1alpha1.ReasonTranspileFailed, errors.New("bad"))}, "SourceVerified=True|SignatureValid|revision main@sha1:cc is signed by ssh SHA256:y (bob)\n"},
		"it is suspended":                            {refused, status.SourceFacts{Verify: true, Suspended: true}, isRefused},
		"the spec requires no signature any more":    {refused, status.SourceFacts{Observed: "main@sha1:aa"}, ""},
		"nothing was read yet":                       {v1alpha1.GitSourceStatus{}, status.SourceFacts{Verify: true, Err: fault.NewRetry(v1alpha1.ReasonUnreachable, errors.New("no route"))}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			text := showSource(status.Source(tc.old, tc.facts, noon))
			at := strings.Index(text, "SourceVerified=")
			if at < 0 {
				at = len(text)
			}
			if diff := gocmp.Diff(tc.want, text[at:]); diff != "" {
				t.Errorf("SourceVerified (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatWasAppliedStays through a bad commit; what was seen and answered moves on.
func TestWhatWasAppliedStays(t *testing.T) {
	old := status.Source(v1alpha1.GitSourceStatus{}, status.SourceFacts{
		Generation: 1, Observed: "main@sha1:aa",
		Applied: applied("main@sha1:aa"),
	}, noon)
	old.Conditions = append(old.Conditions, metav1.Condition{
		Type: "Others", Status: metav1.ConditionTrue,
		Reason: "Theirs",
	})
	before := old.DeepCopy()
	got := status.Source(old, status.SourceFacts{
		Generation: 2, Handled: "now", Observed: "main@sha1:bb",
		Err: fault.NewStalled(v1alpha1.ReasonTranspileFailed, errors.New("bad")),
	}, noon.Add(time.Hour))
	if diff := gocmp.Diff(*before, old); diff != "" {
		t.Errorf("the old status was written to:\n%s", diff)
	}
	want := *old.DeepCopy()
	want.ObservedGeneration, want.ObservedRevision, want.LastHandledReconcileAt = 2, "main@sha1:bb", "now"
	want.Conditions = got.Conditions
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("besides its conditions (-want +got):\n%s", diff)
	}
	if text := showSource(got); !strings.HasSuffix(text, "Others=True|Theirs|\n") {
		t.Errorf("another's condition is lost:\n%s", text)
	}
	if again := status.Source(got, status.SourceFacts{
		Generation: 2, Observed: "main@sha1:bb",
		Err: fault.NewStalled(v1alpha1.ReasonTranspileFailed, errors.New("bad")),
	}, noon.Add(2*time.Hour)); !gocmp.Equal(
		got, again) {
		t.Errorf("equal facts give another status:\n%s", gocmp.Diff(got, again))
	}
}

// TestHistory: newest first, at most 20, the same revision once in a row, and what each pool got from it.
func TestHistory(t *testing.T) {
	var s v1alpha1.GitSourceStatus
	for i := range 30 {
		revision := fmt.Sprintf("main@sha1:%02d", i)
		for range 2 {
			s = status.Source(s, status.SourceFacts{Generation: 1, Applied: applied(revision)}, noon)
		}
		s = status.Gave(s, revision, status.Given{
			Rendered: map[string]string{"worker": "rendered-worker-" + revision[10:]},
		})
	}
	if len(s.History) != 20 || s.History[0].Revision != "main@sha1:29" || s.History[19].Revision != "main@sha1:10" {
		t.Fatalf("%d entries: %+v", len(s.History), s.History)
	}
	if got := s.History[3].Pools["worker"]; got != "rendered-worker-26" {
		t.Errorf("pool worker got %q from %s", got, s.History[3].Revision)
	}
	gone := status.Gave(s, "main@sha1:05", status.Given{Rendered: map[string]string{"worker": "x"}})
	if diff := gocmp.Diff(s, gone); diff != "" {
		t.Errorf("a revision that history does not hold changed it:\n%s", diff)
	}
}

// TestMessagesFit: a commit with thousands of mistakes, of valid text or not, gives a message that the API takes.
func TestMessagesFit(t *testing.T) {
	var mistakes []error
	for i := range 3000 {
		mistakes = append(mistakes, fmt.Errorf("pools/worker/%d.bu:1:1: mode must be octal \xff", i))
	}
	for sentence, err := range map[string]error{
		"thousands of lines": errors.Join(mistakes...),
		"one endless line":   errors.New(strings.Repeat("ä", 40000)),
	} {
		for _, c := range status.Source(v1alpha1.GitSourceStatus{}, status.SourceFacts{Err: err}, noon).Conditions {
			if len(c.Message) > 32768 || !utf8.ValidString(c.Message) {
				t.Errorf("%s: %d bytes, valid %t", sentence, len(c.Message), utf8.ValidString(c.Message))
			}
			if c.Type == v1alpha1.ReadyCondition && !strings.Contains(c.Message, "…") {
				t.Errorf("%s: nothing says that the text was cut", sentence)
			}
		}
	}
}
