package report_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/report"
)

func TestATimeOnTheNodeIsAMomentOrNothing(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-01-02T12:00:00Z": noon, "2026-01-02T14:00:00+02:00": noon,
		"2026-01-02T12:00:00.5Z": noon.Add(time.Second / 2),
		"":                       {}, "now": {}, "2026-01-02": {}, "1767355200": {},
	} {
		n := report.NodeOf(map[string]string{v1alpha1.RetryAnnotation: text, v1alpha1.DrainStartedAnnotation: text})
		if n.Retry != want || n.Drain.Started != want { // as ==, which tells whether the Node changed
			t.Errorf("%q is %v and %v, want %v", text, n.Retry, n.Drain.Started, want)
		}
	}
}

func TestARevisionOfSecretsIsAPartOfTheConfigsName(t *testing.T) {
	for says, c := range map[string]struct {
		current, currentSecrets, desired, desiredSecrets, isCurrent,
		isDesired string
	}{
		"a config without secrets has its name":          {"a", "", "b", "", "a", "b"},
		"both parts count":                               {"a", "r1", "a", "r2", "a@r1", "a@r2"},
		"without a config there is no revision":          {"", "r1", "", "r2", "", ""},
		"a desired config without a revision keeps that": {"a", "r1", "a", "", "a@r1", "a@r1"},
		"another desired config has none":                {"a", "r1", "b", "", "a@r1", "b"},
		"the first revision is a change":                 {"a", "", "a", "r1", "a", "a@r1"},
	} {
		n := report.NodeOf(map[string]string{
			v1alpha1.CurrentConfigAnnotation: c.current, v1alpha1.CurrentSecretsAnnotation: c.currentSecrets,
			v1alpha1.DesiredConfigAnnotation: c.desired, v1alpha1.DesiredSecretsAnnotation: c.desiredSecrets,
		})
		if n.Current != c.isCurrent || n.Desired != c.isDesired {
			t.Errorf("%s: current %q, desired %q", says, n.Current, n.Desired)
		}
		if missing := n.MissingChanges(report.CurrentAnnotations(n.Current)); len(missing) > 0 {
			t.Errorf("%s: it reports %v again", says, missing)
		}
	}
}

func TestOnlyWhatOthersWroteIsAReasonToLookAgain(t *testing.T) {
	said := map[string]string{}
	before := report.NodeOf(said)
	for key, asks := range map[string]bool{
		v1alpha1.DesiredConfigAnnotation: true, v1alpha1.LastAppliedDrainAnnotation: true,
		v1alpha1.StateAnnotation: true, v1alpha1.RetryAnnotation: true, v1alpha1.DrainStartedAnnotation: true,
		v1alpha1.DrainStatusAnnotation: false, v1alpha1.DriftAnnotation: false, v1alpha1.SSHAnnotation: false,
	} {
		said[key] = "2026-01-02T12:00:00Z"
		if now := report.NodeOf(said); (now.Watched() != before.Watched()) != asks {
			t.Errorf("%s: %t", key, !asks)
		}
		delete(said, key)
	}
	other := before
	if other.UID = "another"; other.Watched() == before.Watched() {
		t.Error("another Node of the same name is no reason")
	}
}

func TestWhatTheNodeSaysAlreadyIsNotSaidAgain(t *testing.T) {
	n := report.NodeOf(map[string]string{v1alpha1.StateAnnotation: "Done", v1alpha1.ReasonAnnotation: "old"})
	got := n.MissingChanges(map[string]string{
		v1alpha1.StateAnnotation: "Done", v1alpha1.ReasonAnnotation: "",
		v1alpha1.CurrentConfigAnnotation: "",
	})
	if diff := cmp.Diff(map[string]string{v1alpha1.ReasonAnnotation: ""}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatSomebodyWroteFitsOnALine(t *testing.T) {
	long := ""
	for range 100 {
		long += "ü"
	}
	for text, want := range map[string]string{
		"": "", "  time: two pools\n": "time: two pools", "a\x1b[31mb\xff": "a[31mb", "a\u202eb": "ab",
	} {
		if got := report.OneLine(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := []rune(report.OneLine(long)); len(got) != 72 || got[71] != '…' {
		t.Errorf("%d characters: %s", len(got), string(got))
	}
}
