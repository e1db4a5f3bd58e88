package kube_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

var (
	hashA = "aaaaaaa1" + strings.Repeat("0", 32)
	hashB = "aaaaaaa2" + strings.Repeat("0", 32)
	hashC = "ccccccc3" + strings.Repeat("0", 32)
)

// held is a cluster whose pool worker has the config of hashB. The config of hashC is not on the cluster any more.
func held() fleet.Cluster {
	entry := func(hash, config string) v1alpha1.HistoryEntry {
		return v1alpha1.HistoryEntry{CommitInfo: v1alpha1.CommitInfo{
			Revision: "main@sha1:" + hash,
			Subject:  "Change\x1b[31m",
		}, Pools: map[string]string{"worker": config}}
	}
	c := fleet.Cluster{
		Sources: []v1alpha1.GitSource{{
			ObjectMeta: metav1.ObjectMeta{Name: "config"},
			Status: v1alpha1.GitSourceStatus{History: []v1alpha1.HistoryEntry{
				entry(hashB, "rendered-worker-b"), entry(hashA, "rendered-worker-a"), entry(hashC, "rendered-worker-c"),
			}},
		}},
		Pools: []mcfgv1.MachineConfigPool{{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}},
		Rendered: []fleet.RenderedRow{
			{Name: "rendered-worker-a", Pool: "worker"},
			{Name: "rendered-worker-b", Pool: "worker"},
		},
	}
	c.Pools[0].Spec.Configuration.Name = "rendered-worker-b"
	return c
}

// TestHoldFindsTheRevision: a user names exactly one commit whose config is on the cluster, or gets the list of those.
func TestHoldFindsTheRevision(t *testing.T) {
	for at, want := range map[string]string{
		hashA:                    "rendered-worker-a",
		"aaaaaaa1":               "rendered-worker-a",
		"main@sha1:aaaaaaa1":     "rendered-worker-a",
		"main@sha1:" + hashB:     "rendered-worker-b",
		"aaaaaaa":                "several commits have this hash",
		"aaaaaa":                 "at least 7 digits",
		"AAAAAAA1":               "in lower case",
		"main":                   "want the hash of a commit",
		"HEAD~1":                 "want the hash of a commit",
		"other@sha1:aaaaaaa1":    "no commit with this hash",
		hashC:                    "no commit with this hash gave pool worker a config that is on the cluster",
		hashA + "0":              "want the hash of a commit",
		"deadbeef":               "on the cluster are:\n  main@sha1:" + hashB,
		"aaaaaaa1\nbbbbbbbbbbbb": "want the hash of a commit",
	} {
		o, err := kube.Hold(held(), "worker", at, kube.HoldReason{Who: "ada", Because: "wait"})
		if strings.HasPrefix(want, "rendered-") {
			if err != nil || !strings.Contains(string(o.Changes[0].Patch), `"bunsen.dev/hold":"`+want+`"`) {
				t.Errorf("--at %s: %v, %v", at, o, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--at %q: %v, want %q", at, err, want)
		}
	}
}

// TestHoldOffers: each commit that is offered is one at which the pool can be held, and the page's link says so without
// the others.
func TestHoldOffers(t *testing.T) {
	c := held()
	again := c.Sources[0].DeepCopy() // It has the commits of the first source, and one of them with another config.
	again.Name = "again"
	again.Status.History[1].Pools["worker"] = "rendered-worker-b"
	damaged := v1alpha1.HistoryEntry{Pools: map[string]string{"worker": "rendered-worker-a"}}
	damaged.Revision = "main@sha1:aaaaaaa1"
	again.Status.History = append(again.Status.History, damaged)
	quiet := c.Sources[0].DeepCopy() // Its newest commit changes nothing of the pool.
	newest := quiet.Status.History[0]
	newest.Revision = "main@sha1:" + hashC
	quiet.Status.History = append([]v1alpha1.HistoryEntry{newest}, quiet.Status.History...)
	for want, sources := range map[string][]v1alpha1.GitSource{
		"":                                     nil,
		"b: true":                              {c.Sources[0], *again},
		"b: true, a: false":                    {c.Sources[0]},
		"b: true, a: false after another pool": {c.Sources[0]},
		"b: true, a: false after no change":    {*quiet},
	} {
		one := c
		one.Sources = sources
		name, after, _ := strings.Cut(want, " after ")
		want = name
		if after == "another pool" {
			one.Rendered = append([]fleet.RenderedRow{{Name: "rendered-worker-c", Pool: "edge"}}, c.Rendered...)
		}
		var got []string
		for _, o := range kube.HoldOffers(one, "worker") {
			name := map[string]string{"main@sha1:" + hashA: "a", "main@sha1:" + hashB: "b"}[o.Revision]
			got = append(got, fmt.Sprintf("%s: %v", name, o.IsNow))
			if _, err := kube.Hold(one, "worker", o.Revision, kube.HoldReason{Who: "ada", Because: "x"}); err != nil {
				t.Errorf("%s is offered: %v", o.Revision, err)
			}
		}
		if text := strings.Join(got, ", "); text != want || kube.CanHold(one, "worker") != (want != "") {
			t.Errorf("%q, want %q; the pool can be held: %v", text, want, kube.CanHold(one, "worker"))
		}
	}
	if kube.CanHold(c, "edge") || len(kube.HoldOffers(c, "edge")) > 0 {
		t.Error("a pool that does not exist can be held")
	}
}

// TestHoldAtARecordedRollout: a GitSource that was created again does not know the commits of before, the pool does.
func TestHoldAtARecordedRollout(t *testing.T) {
	c := held()
	c.Sources[0].Status.History = nil
	c.Pools[0].Annotations = map[string]string{v1alpha1.RolloutHistoryAnnotation: v1alpha1.AddRolloutOutcomes("",
		[]v1alpha1.RolloutOutcome{
			{Requester: v1alpha1.Requester{Revision: "main@sha1:" + hashA}, Config: "rendered-worker-a"},
			{Requester: v1alpha1.Requester{Revision: "main@sha1:" + hashC}, Config: "rendered-worker-gone"},
		})}
	o, err := kube.Hold(c, "worker", hashA, kube.HoldReason{Who: "ada", Because: "wait"})
	if err != nil || !strings.Contains(string(o.Changes[0].Patch), `"bunsen.dev/hold":"rendered-worker-a"`) {
		t.Errorf("%v, %v", o, err)
	}
	if _, err := kube.Hold(c, "worker", hashC, kube.HoldReason{Who: "ada", Because: "wait"}); err == nil ||
		!strings.Contains(err.Error(), "that is on the cluster") || strings.Contains(err.Error(), "GitSource") {
		t.Errorf("a config that is not on the cluster any more: %v", err)
	}
}

// TestHoldAndRelease has the patches of a hold with an end, of a second hold, and of the release.
func TestHoldAndRelease(t *testing.T) {
	c := held()
	until := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	o, err := kube.Hold(c, "worker", hashA, kube.HoldReason{
		Who: "ada", Because: "the kernel\nloses packets",
		Until: until,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"bunsen.dev/held-by":"ada: the kernel loses packets"`,
		`"bunsen.dev/held-until":"2026-12-01T08:00:00Z"`, `"bunsen.dev/held-revision":"main@sha1:` + hashA,
	} {
		if !strings.Contains(string(o.Changes[0].Patch), part) {
			t.Errorf("the patch lacks %s: %s", part, o.Changes[0].Patch)
		}
	}
	c.Pools[0].Annotations = map[string]string{
		v1alpha1.HoldAnnotation:         "rendered-worker-a",
		v1alpha1.HeldRevisionAnnotation: "main@sha1:" + hashA, v1alpha1.HeldByAnnotation: "ada: wait",
	}
	if o, err = kube.Hold(c, "worker", hashB, kube.HoldReason{Who: "bob", Because: "x"}); err != nil ||
		len(o.Changes) != 1 || !strings.Contains(string(o.Changes[0].Patch), `"bunsen.dev/hold":"rendered-worker-b"`) ||
		!strings.Contains(o.Changes[0].Did, "before, it was held at main@sha1:aaaaaaa1 by ada: wait") {
		t.Errorf("a second hold: %v, %v", o, err)
	}
	if o, err = kube.Hold(c, "worker", hashA, kube.HoldReason{Who: "ada", Because: " wait "}); err != nil ||
		len(o.Changes) > 0 || !strings.Contains(o.Notes[0], "has this hold already, at main@sha1:aaaaaaa1 by ada: wa") {
		t.Errorf("the same hold again: %v, %v", o, err)
	}
	if _, err = kube.Hold(c, "worker", "1234567", kube.HoldReason{Who: "ada", Because: "wait"}); err == nil {
		t.Error("a held pool takes a commit that does not exist")
	}
	if o, err = kube.Release(c, "worker", "ada"); err != nil || !strings.Contains(string(o.Changes[0].Patch),
		`"bunsen.dev/hold":null`) || !strings.Contains(o.Changes[0].Did, "by ada: wait") {
		t.Errorf("the release: %v, %v", o, err)
	}
	if o, err = kube.Release(held(), "worker", "ada"); err != nil || len(o.Changes) > 0 {
		t.Errorf("a release without a hold: %v, %v", o, err)
	}
}
