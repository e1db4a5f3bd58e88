package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// GavePool reports whether a commit of the source gave the pool a config.
func GavePool(src *v1alpha1.GitSource, pool string) bool {
	return slices.ContainsFunc(src.Status.History, func(e v1alpha1.HistoryEntry) bool { return e.Pools[pool] != "" })
}

// refusedCommit returns the newest commit of a source if the condition Ready says that it was refused, else nil.
func refusedCommit(src *v1alpha1.GitSource) *v1alpha1.HistoryEntry {
	s := &src.Status
	ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionFalse || !meta.IsStatusConditionTrue(s.Conditions,
		v1alpha1.StalledCondition) || len(s.History) == 0 {
		return nil
	}
	newest := &s.History[0]
	if newest.Refused == nil || newest.Revision != s.ObservedRevision || newest.Refused.Reason != ready.Reason {
		return nil
	}
	return newest
}

// leftOut is the last line of a condition that had no room for more.
var leftOut = regexp.MustCompile(`^… and (\d+) more$`)

// SourceProblems returns the problems in a source's condition Ready, a line each, and the number of those that the
// condition left out.
func SourceProblems(src *v1alpha1.GitSource, message string) (lines []string, more int) {
	lines = strings.Split(strings.TrimSpace(message), "\n")
	last := len(lines) - 1
	named := refusedCommit(src) != nil // by the last line
	if m := leftOut.FindStringSubmatch(lines[last]); m != nil && last > 0 {
		more, _ = strconv.Atoi(m[1]) // It has digits only.
		if named {
			more--
		}
		return lines[:last], more
	}
	if named && last > 0 {
		lines = lines[:last]
	}
	return lines, 0
}

// SourceProblem returns the first problem of a source with the number of the others, and the refused commit that has
// them, or "".
func SourceProblem(src *v1alpha1.GitSource, message string) (problem, commit string) {
	lines, more := SourceProblems(src, message)
	problem = lines[0]
	if more += len(lines) - 1; more > 0 {
		problem += fmt.Sprintf(" (+%d more)", more)
	}
	if c := refusedCommit(src); c != nil {
		commit = fmt.Sprintf("in %s %s by %s; nothing of it is applied", ShortRevision(c.Revision),
			source.Quote(c.Subject), c.Author)
	}
	return problem, commit
}

// SourceProblemLine returns the problem of a source with its commit, for tables.
func SourceProblemLine(src *v1alpha1.GitSource, message string) string {
	problem, commit := SourceProblem(src, message)
	if commit != "" {
		problem += "; " + commit
	}
	return Shorten(problem)
}

// OneLine returns the first line of a text.
func OneLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// ShortRevision shortens the hash of a revision. It returns any other text unchanged.
func ShortRevision(s string) string {
	r, err := source.ParseRevision(s)
	if err != nil {
		return s
	}
	return r.Short()
}

// RenderedBefore returns the config that the newest of the given commits gave a pool, or "".
func RenderedBefore(history []v1alpha1.HistoryEntry, pool string) string {
	for i := range history {
		if rendered := history[i].Pools[pool]; rendered != "" {
			return rendered
		}
	}
	return ""
}

// ProgressText returns how far the controller is with a revision, such as `applying 900 of 2,000 objects of
// main@sha1:4f1c2ab1, 12s so far`, at the time of its report; "" if it reports none.
func ProgressText(src *v1alpha1.GitSource) string {
	p := src.Status.Progress
	if p == nil {
		return ""
	}
	text := "applying"
	if p.Phase == v1alpha1.ApplyChecking {
		text = "checking with the API server"
	}
	of := "the state before the first revision"
	if p.Revision != "" {
		of = ShortRevision(p.Revision)
	}
	return fmt.Sprintf("%s %s of %s of %s, %s so far", text, grouped(p.Done), grouped(p.Objects)+" objects", of,
		Took(p.Reported.Sub(p.Began.Time)))
}

func grouped(n int32) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// IsApplying reports whether the controller applies a revision, which it continues by itself.
func IsApplying(src *v1alpha1.GitSource, now time.Time) bool {
	return (src.Status.Applying != nil || src.Status.Progress != nil) && !src.Spec.IsSuspended(now) &&
		!meta.IsStatusConditionFalse(src.Status.Conditions, v1alpha1.ReadyCondition)
}

// AppliedHistory returns the commits of a source that were applied, newest first.
func AppliedHistory(src *v1alpha1.GitSource) []v1alpha1.HistoryEntry {
	var out []v1alpha1.HistoryEntry
	for _, e := range src.Status.History {
		if e.Refused == nil {
			out = append(out, e)
		}
	}
	return out
}

// HashOf returns the short hash of a revision, or "".
func HashOf(revision string) string {
	r, err := source.ParseRevision(revision)
	if err != nil {
		return ""
	}
	return r.Hash[:min(len(r.Hash), 8)]
}
