package reconcile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// TestFetchesThatFail: the remote answers each listing, and no fetch succeeds.
func TestFetchesThatFail(t *testing.T) {
	reset := func(n int) error {
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("fetching: request %d was reset", n))
	}
	large := func(int) error {
		return fault.NewStalled(v1alpha1.ReasonInvalidTree, fmt.Errorf("the pack is larger than 64 MiB"))
	}
	limited := func(int) error {
		return &fault.Error{
			Kind: fault.Retry, Reason: v1alpha1.ReasonUnreachable,
			Err: errors.New("429 Too Many Requests"), After: 25 * time.Minute,
		}
	}
	// play looks whenever the controller wants to, for a time, and at each second too: objects of the cluster change.
	play := func(w *world, d time.Duration) {
		for end := w.Now.Add(d); w.Now.Before(end); w.Now = w.Now.Add(time.Second) {
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
		"a remote that asks to wait is asked again after that time":             {limited, func(w *world) { play(w, time.Hour) }, 3, 1},
		"a tree that is too large is fetched once":                              {large, func(w *world) { play(w, 10*time.Minute) }, 1, 1},
		"a new commit is fetched at once": {large, func(w *world) {
			play(w, time.Minute)
			w.repo.Push("smaller", controllertest.Files("worker/10-motd.bu=hello"))
			w.tick()
			play(w, time.Minute)
		}, 2, 2},
		"a request fetches at once": {large, func(w *world) {
			play(w, time.Minute)
			controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.ReconcileAnnotation, "now")
			})
			play(w, time.Minute)
		}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.repo.Broken = test.broken
			test.then(w)
			controllertest.Equal(t, "trees fetched", w.repo.Fetches, test.fetches)
			controllertest.Equal(t, "events", len(w.Events.Lines), test.events)
			w.repo.Broken = nil
			w.repo.Push("say hello again", controllertest.Files("worker/10-motd.bu=hello again"))
			w.tick()
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
		})
	}
}

// TestADamagedRepositoryNeedsAPerson: the first fetch that lacks an object may have met a repository that was being
// repacked. Once another fetch lacks it too, the controller says that a person is needed, and still looks.
func TestADamagedRepositoryNeedsAPerson(t *testing.T) {
	w := newWorld(t)
	w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
	w.repo.Broken = func(int) error {
		return fault.NewRetry(v1alpha1.ReasonRepositoryDamaged, errors.New("fetching: object 11 is missing"))
	}
	w.follow()
	controllertest.Equal(t, "Stalled after one fetch", w.Condition("Stalled"), "absent")
	w.follow() // The cluster changed: nothing is fetched.
	controllertest.Equal(t, "trees fetched", w.repo.Fetches, 1)
	controllertest.Equal(t, "Stalled before another fetch", w.Condition("Stalled"), "absent")
	for end := w.Now.Add(15 * time.Second); w.Now.Before(end); {
		w.Now = w.Now.Add(w.follow().RequeueAfter)
	}
	controllertest.Contains(t, "Stalled", w.Condition("Stalled"),
		"True|RepositoryDamaged|fetching: object 11 is missing")
	controllertest.Equal(t, "events", len(w.Events.Lines), 1)
	w.repo.Broken = nil
	for end := w.Now.Add(time.Minute); w.Now.Before(end); {
		w.Now = w.Now.Add(w.follow().RequeueAfter)
	}
	controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
	controllertest.Equal(t, "Stalled", w.Condition("Stalled"), "absent")
}
