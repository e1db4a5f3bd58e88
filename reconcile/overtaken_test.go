package reconcile_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// many are the documents of a commit that takes some time.
func many(text string) string {
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprintf("worker/10-%02d.bu=%s", i, text))
	}
	return controllertest.Files(all...)
}

// announced are events of which one releases whoever waits for it.
type announced struct {
	kube.Events
	reason string
	once   sync.Once
	sent   chan struct{}
}

// Send sends the event.
func (e *announced) Send(sent kube.Event) {
	e.Events.Send(sent)
	if sent.Reason == e.reason {
		e.once.Do(func() { close(e.sent) })
	}
}

// TestARevertOvertakesACommit pushes a revert while a commit of many documents is written. The rest of it is not
// written, the revert is applied at once, and no pool ever gets a config that neither has.
func TestARevertOvertakesACommit(t *testing.T) {
	w := newWorld(t)
	w.repo.Push("before", many("one"))
	w.follow()
	before := w.renderPool("worker")
	bad := w.repo.Push("bad", many("two"))
	w.tick()

	events := &announced{Events: w.Events, reason: "RevisionOvertaken", sent: make(chan struct{})}
	w.source.Events, w.source.LookEvery = events, time.Millisecond
	var revert string
	written := 0
	w.Writes.Fault = func(what string) (bool, error) {
		if what == "apply" {
			if written++; written == 10 {
				revert = w.repo.Push("revert", many("one"))
				src := w.GitSource() // as a user asks for a look, without a change of the spec
				src.Annotations = map[string]string{v1alpha1.ReconcileAnnotation: "now"}
				if err := w.Admin.Update(t.Context(), src); err != nil {
					t.Error(err)
				}
				<-events.sent
			}
		}
		return false, nil
	}
	w.follow()
	w.Writes.Fault = nil
	src := w.GitSource()
	controllertest.Equal(t, "what is applied", src.Status.AppliedRevision, revert)
	controllertest.Equal(t, "an apply under way", src.Status.Applying == nil && src.Status.Progress == nil, true)
	controllertest.Equal(t, "the answered request", src.Status.LastHandledReconcileAt, "now")
	for _, e := range src.Status.History {
		if e.Revision == bad {
			t.Errorf("the overtaken commit is in the history: %v", e)
		}
	}
	if written >= 40+10 {
		t.Errorf("%d objects were written: nothing was left out", written)
	}
	controllertest.Equal(t, "the config of the pool", w.renderPool("worker"), before)
	for name, mc := range w.Configs() {
		if strings.HasPrefix(name, "rendered-worker-") && name != before {
			t.Errorf("rendered meanwhile: %s", name)
		} else if mc.Labels[v1alpha1.SourceLabel] != "" && strings.Contains(string(mc.Spec.Config.Raw), "two") {
			t.Errorf("%s is as the overtaken commit has it", name)
		}
	}
}

// TestOnlyAUsableCommitOvertakes: a newer commit that cannot be fetched does not stop the apply of the one before.
func TestOnlyAUsableCommitOvertakes(t *testing.T) {
	w := newWorld(t)
	w.repo.Push("before", many("one"))
	w.follow()
	good := w.repo.Push("good", many("two"))
	w.tick()
	var due atomic.Bool
	start := w.Now
	w.source.LookEvery = time.Millisecond
	w.source.Now = func() time.Time {
		if due.Load() {
			return start.Add(2 * time.Minute)
		}
		return start
	}
	tried, written := make(chan struct{}), 0
	var once sync.Once
	w.Writes.Fault = func(what string) (bool, error) {
		if what == "apply" {
			if written++; written == 10 {
				w.repo.Push("newer", many("three"))
				w.repo.Broken = func(int) error {
					once.Do(func() { close(tried) })
					return errors.New("the pack is cut off")
				}
				due.Store(true)
				<-tried
			}
		}
		return false, nil
	}
	w.follow()
	w.Writes.Fault = nil
	controllertest.Equal(t, "what is applied", w.GitSource().Status.AppliedRevision, good)
}
