package status_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

// tried is an attempt at a commit that ended with an error.
func tried(revision string, err error) status.SourceFacts {
	return status.SourceFacts{
		Generation: 1, Observed: revision, Err: err,
		Tried: &v1alpha1.CommitInfo{
			Revision: revision, Subject: strings.Repeat("ä", 500), Author: "A <a@example.com>",
			Time: metav1.NewTime(noon),
		},
	}
}

func showHistory(s v1alpha1.GitSourceStatus) string {
	var out []string
	for _, e := range s.History {
		text := strings.TrimPrefix(e.Revision, "main@sha1:")
		if e.Refused != nil {
			text += " refused " + e.Refused.Reason
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// TestRefusedCommits: what the history says of commits that could not be applied.
func TestRefusedCommits(t *testing.T) {
	bad := fault.NewStalled(v1alpha1.ReasonTranspileFailed,
		errors.New("pools/worker/10-motd.bu:6:13: mode must be octal\nin main@sha1:bb"))
	late := fault.NewRetry(v1alpha1.ReasonApplyFailed, errors.New("applying MachineConfig: the API server is away"))
	waits := fault.NewWait(v1alpha1.ReasonPoolMissing, errors.New("pool gpu is not there yet"))
	first := status.SourceFacts{Generation: 1, Observed: "main@sha1:aa", Applied: applied("main@sha1:aa")}
	for sentence, tc := range map[string]struct {
		attempts []status.SourceFacts
		want     string
	}{
		"a commit with mistakes is refused":                          {[]status.SourceFacts{first, tried("main@sha1:bb", bad)}, "bb refused TranspileFailed, aa"},
		"one that is tried twice is in the history once":             {[]status.SourceFacts{first, tried("main@sha1:bb", bad), tried("main@sha1:bb", bad)}, "bb refused TranspileFailed, aa"},
		"an API server that is away refuses nothing":                 {[]status.SourceFacts{first, tried("main@sha1:bb", late)}, "aa"},
		"what waits for a pool is not refused":                       {[]status.SourceFacts{first, tried("main@sha1:bb", waits)}, "aa"},
		"an error without a kind is tried again, so nothing refused": {[]status.SourceFacts{first, tried("main@sha1:bb", errors.New("conflict"))}, "aa"},
		"a refused commit keeps its reason while the API server is away": {
			[]status.SourceFacts{first, tried("main@sha1:bb", bad), tried("main@sha1:bb", late)},
			"bb refused TranspileFailed, aa",
		},
		"a refused commit that is applied in the end is not refused any more": {
			[]status.SourceFacts{first, tried("main@sha1:bb", bad), {Generation: 1, Applied: applied("main@sha1:bb")}},
			"bb, aa",
		},
		"a refused commit stays below the one that fixed it": {
			[]status.SourceFacts{first, tried("main@sha1:bb", bad), {Generation: 1, Applied: applied("main@sha1:cc")}},
			"cc, bb refused TranspileFailed, aa",
		},
		"the commit in force is never refused": {[]status.SourceFacts{first, tried("main@sha1:aa", bad)}, "aa"},
	} {
		t.Run(sentence, func(t *testing.T) {
			var s v1alpha1.GitSourceStatus
			for _, f := range tc.attempts {
				s = status.Source(s, f, noon)
			}
			if got := showHistory(s); got != tc.want {
				t.Errorf("history %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTheHistoryCountsProblems: it has the first problem of a commit, and says how many more there are.
func TestTheHistoryCountsProblems(t *testing.T) {
	const commit = "\nin main@sha1:bb \"a typo\" by A; nothing of it is applied"
	for text, want := range map[string]string{
		"a.bu:1:1: no":                          "a.bu:1:1: no",
		"a.bu:1:1: no" + commit:                 "a.bu:1:1: no",
		"a.bu:1:1: no\nb.bu:2:1: no" + commit:   "a.bu:1:1: no (+1 more)",
		"a.bu:1:1: no\nb.bu:2:1: no\nin.bu: no": "a.bu:1:1: no (+2 more)",
	} {
		s := status.Source(v1alpha1.GitSourceStatus{},
			tried("main@sha1:bb", fault.NewStalled(v1alpha1.ReasonTranspileFailed, errors.New(text))), noon)
		if got := s.History[0].Refused.Message; got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// TestTheHistoryIsBounded: 20 applied commits and 10 refused ones, in whatever order they came, with texts of at most
// 200 characters.
func TestTheHistoryIsBounded(t *testing.T) {
	long := errors.New(strings.Repeat("ö", 5000) + "\nsecond line")
	var s v1alpha1.GitSourceStatus
	for i := range 200 {
		revision := fmt.Sprintf("main@sha1:%03d", i)
		if i%3 != 0 {
			s = status.Source(s, tried(revision, fault.NewStalled(v1alpha1.ReasonTranspileFailed, long)), noon)
		}
		if i%3 != 1 {
			s = status.Source(s, status.SourceFacts{Generation: 1, Applied: applied(revision)}, noon)
			s = status.Gave(s, revision, status.Given{Failed: map[string]string{"worker": long.Error()}})
		}
		is, refused := 0, 0
		for _, e := range s.History {
			texts := []string{e.Subject, e.NotRendered["worker"]}
			if e.Refused != nil {
				texts = append(texts, e.Refused.Message)
				refused++
			} else {
				is++
			}
			for _, text := range texts {
				if utf8.RuneCountInString(text) > 201 || strings.Contains(text, "second") {
					t.Fatalf("%s keeps a text of %d characters", e.Revision, utf8.RuneCountInString(text))
				}
			}
		}
		if is > v1alpha1.MaxHistory || refused > 10 {
			t.Fatalf("after %d commits: %d applied and %d refused", i+1, is, refused)
		}
	}
}

// TestWhenACommitWasApplied: the history says when a commit was applied, and that it rewrote the branch; a later look
// at the same commit changes neither. It names the pools that were held at another commit.
func TestWhenACommitWasApplied(t *testing.T) {
	pushed := applied("main@sha1:aa")
	pushed.Rewritten = "does not descend"
	s := status.Source(v1alpha1.GitSourceStatus{}, status.SourceFacts{Generation: 1, Applied: pushed}, noon)
	again := status.SourceFacts{Generation: 2, Applied: applied("main@sha1:aa")}
	s = status.Source(s, again, noon.Add(time.Hour))
	s = status.Gave(s, "main@sha1:aa", status.Given{Held: []string{"worker"}})
	if e := s.History[0]; len(s.History) != 1 || !e.At.Time.Equal(noon) || !e.Rewritten || len(e.Held) != 1 {
		t.Errorf("%+v", s.History)
	}
	s = status.Source(s, tried("main@sha1:bb", fault.NewStalled("Bad", errors.New("a typo"))), noon.Add(2*time.Hour))
	s = status.Source(s, tried("main@sha1:bb", fault.NewStalled("Bad", errors.New("a typo"))), noon.Add(3*time.Hour))
	if e := s.History[0]; e.Refused == nil || !e.At.Time.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("a refused commit: %+v", e)
	}
}

// TestNotRendered: the reason of the newest look counts, and a pool that is rendered in the end has none.
func TestNotRendered(t *testing.T) {
	s := status.Source(v1alpha1.GitSourceStatus{}, status.SourceFacts{Generation: 1, Applied: applied("main@sha1:aa")},
		noon)
	s = status.Gave(s, "main@sha1:aa", status.Given{
		Rendered: map[string]string{"worker": "rendered-worker-1"},
		Failed:   map[string]string{"infra": "running nodes cannot take it"},
	})
	if got := s.History[0]; got.NotRendered["infra"] != "running nodes cannot take it" ||
		got.Pools["worker"] != "rendered-worker-1" {
		t.Fatalf("%+v", got)
	}
	s = status.Gave(s, "main@sha1:aa", status.Given{Rendered: map[string]string{"infra": "rendered-infra-1"}})
	if got := s.History[0]; got.NotRendered != nil || got.Pools["infra"] != "rendered-infra-1" {
		t.Errorf("%+v", got)
	}
}
