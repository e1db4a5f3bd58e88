package fetch

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// maxProblem is the maximum number of characters of a problem in a report.
const maxProblem = 2000

// LastReport returns the report in the value of v1alpha1.FetchedAnnotation. An invalid value counts as empty.
func LastReport(text string) v1alpha1.FetchReport {
	r, err := v1alpha1.ParseFetchReport(text)
	if err != nil {
		return v1alpha1.FetchReport{}
	}
	return r
}

// Report starts or continues the downloads for the config that the node gets next, and returns the report about them.
// Without such a config, the downloads end. The parameter was is the last report, and load returns the change to the
// config. The caller holds the lock.
func (s *Syncer) Report(ctx context.Context, next string, was v1alpha1.FetchReport,
	load func() (Way, error),
) v1alpha1.FetchReport {
	if next == "" {
		if err := s.Forget(); err != nil {
			s.TryAgain()
		}
		return v1alpha1.FetchReport{}
	}
	var state SyncState
	way, err := load()
	if err == nil {
		state, err = s.Follow(ctx, way)
	}
	switch {
	case err != nil:
		s.TryAgain()
		return WithProblem(next, was, err)
	case state.Problem != nil:
		return WithProblem(next, was, state.Problem)
	case state.Done:
		return v1alpha1.FetchReport{Config: next}
	case was.Config == next: // An attempt is under way, and the last report still counts.
		return was
	}
	return v1alpha1.FetchReport{} // There is nothing to report yet.
}

// WithProblem returns a report about a config with a problem. The time stays that of the last report if that had a
// problem with the config, too.
func WithProblem(config string, was v1alpha1.FetchReport, problem error) v1alpha1.FetchReport {
	is := v1alpha1.FetchReport{Config: config, Problem: problem.Error(), Since: was.Since}
	if IsUntrusted(problem) {
		is.Cause = v1alpha1.FetchUntrusted
	}
	if runes := []rune(is.Problem); len(runes) > maxProblem {
		is.Problem = string(runes[:maxProblem-1]) + "…"
	}
	if was.Config != config || was.Since == nil {
		is.Since = new(metav1.NewTime(time.Now().UTC().Truncate(time.Second)))
	}
	return is
}
