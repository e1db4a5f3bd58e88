package controller_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestFetchesThatFail: the remote answers each listing, and no fetch succeeds.
func TestFetchesThatFail(t *testing.T) {
	reset := func(n int) error {
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("fetching: request %d was reset", n))
	}
	large := func(int) error {
		return fault.NewStalled(v1alpha1.ReasonInvalidTree, fmt.Errorf("the pack is larger than 64 MiB"))
	}
	// play looks whenever the controller wants to, for a time, and at each second too: objects of the cluster change.
	play := func(w *world, d time.Duration) {
		for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Second) {
			w.follow()
		}
	}
	for name, test := range map[string]struct {
		broken  func(int) error
		then    func(w *world)
		fetches int
		events  int
	}{
		"pauses between fetches grow up to the interval, and one event is made": {reset, func(w *world) { play(w, 10*time.Minute) }, 13, 1},
		"a tree that is too large is fetched once":                              {large, func(w *world) { play(w, 10*time.Minute) }, 1, 1},
		"a new commit is fetched at once": {large, func(w *world) {
			play(w, time.Minute)
			w.repo.push("smaller", files("worker/10-motd.bu=hello"))
			w.tick()
			play(w, time.Minute)
		}, 2, 2},
		"a request fetches at once": {large, func(w *world) {
			play(w, time.Minute)
			change(w, w.gitSource(), func(s *v1alpha1.GitSource) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.ReconcileAnnotation, "now")
			})
			play(w, time.Minute)
		}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.repo.broken = test.broken
			test.then(w)
			equal(t, "trees fetched", w.repo.fetches, test.fetches)
			equal(t, "events", len(w.told.lines), test.events)
			w.repo.broken = nil
			w.repo.push("say hello again", files("worker/10-motd.bu=hello again"))
			w.tick()
			w.follow()
			has(t, "Ready", w.condition("Ready"), "True|Succeeded")
		})
	}
}
