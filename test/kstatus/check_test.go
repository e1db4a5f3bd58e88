package kstatus_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/test/kstatus"
)

// object returns a GitSource of generation 2 with these conditions, each as `Type=Status Reason Time Message`.
func object(t *testing.T, observed int, conditions ...string) *unstructured.Unstructured {
	t.Helper()
	var list []any
	for _, c := range conditions {
		words := strings.SplitN(c, " ", 4)
		kind, status, _ := strings.Cut(words[0], "=")
		list = append(list, map[string]any{
			"type": kind, "status": status, "reason": words[1], "lastTransitionTime": "2026-01-02T" + words[2] + "Z",
			"message": words[3], "observedGeneration": observed,
		})
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "bunsen.dev/v1alpha1", "kind": "GitSource", "metadata": map[string]any{
			"name": "os", "uid": "1",
			"generation": 2,
		},
		"status": map[string]any{"observedGeneration": observed, "conditions": list},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestRules: each rule has a status that breaks it, so that a checker that checks nothing fails here.
func TestRules(t *testing.T) {
	const ready = "Ready=True Succeeded 12:00:00 applied"
	for _, c := range []struct {
		name       string
		observed   int
		before     []string
		conditions []string
		want       string
	}{
		{"valid", 2, nil, []string{ready}, ""},
		{"under way", 2, []string{ready}, []string{"Ready=Unknown Progressing 12:01:00 fetching", "Reconciling=True Progressing 12:01:00 fetching"}, ""},
		{"suspended at first", 2, nil, []string{"Ready=False Suspended 12:00:00 suspended"}, ""},
		{"old generation", 1, nil, []string{ready}, ""},
		{"both", 2, nil, []string{"Ready=False X 12:00:00 x", "Reconciling=True X 12:00:00 x", "Stalled=True X 12:00:00 x"}, "Reconciling and Stalled are both True"},
		{"stalled and ready", 2, nil, []string{ready, "Stalled=True X 12:00:00 x"}, "Stalled is True, and Ready is True"},
		{"reconciling and ready", 2, nil, []string{ready, "Reconciling=True X 12:00:00 x"}, "Reconciling and Ready are both True"},
		{"unknown", 2, nil, []string{"Ready=Unknown X 12:00:00 x"}, "Ready is Unknown, although nothing reconciles"},
		{"false", 2, nil, []string{"Ready=False X 12:00:00 x"}, "neither Reconciling nor Stalled"},
		{"no condition Ready", 2, nil, []string{"Stalled=True X 12:00:00 x"}, "no condition Ready"},
		{"no message", 2, nil, []string{"Ready=True X 12:00:00 "}, `the message ""`},
		{"ahead", 3, nil, []string{ready}, "ahead of generation"},
		{"time goes back", 2, []string{ready}, []string{"Ready=True Succeeded 11:59:59 applied"}, "went back"},
		{"time without a transition", 2, []string{ready}, []string{"Ready=True Succeeded 12:00:01 applied"}, "changed, and its status is True as before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before *unstructured.Unstructured
			if c.before != nil {
				before = object(t, c.observed, c.before...)
			}
			broken, err := kstatus.Check(before, object(t, c.observed, c.conditions...))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(broken, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestLasting: an attempt that never ends is no attempt.
func TestLasting(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	o := object(t, 2, "Ready=Unknown Progressing 12:00:00 fetching", "Reconciling=True Progressing 12:00:00 fetching")
	for after, want := range map[time.Duration]int{time.Minute: 0, time.Hour: 1} {
		broken, err := kstatus.Lasting(o, at.Add(after))
		if err != nil || len(broken) != want {
			t.Errorf("after %s: %v, %v", after, broken, err)
		}
	}
}
