package controller_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller"
	"github.com/bunsen-os/bunsen/source"
)

// garbage is a controller that has just started.
func (w *world) garbage() *controller.Garbage {
	return &controller.Garbage{Client: w.through, Live: w.admin, Source: w.source, Render: w.render, Now: func() time.Time { return w.now }, Events: w.told}
}

// sweep lets the controller look once, and returns the events of it.
func (w *world) sweep(g *controller.Garbage) string {
	w.t.Helper()
	before := len(w.told.lines)
	res, err := g.Reconcile(w.t.Context(), request("rendered"))
	if err != nil {
		w.t.Fatalf("collecting garbage: %v", err)
	}
	if res.RequeueAfter != time.Minute {
		w.t.Errorf("the next look is in %s", res.RequeueAfter)
	}
	return strings.Join(w.told.lines[before:], "\n")
}

// deploy pushes one file, renders pool worker and lets the history know.
func (w *world) deploy(subject, content string) (revision, rendered string) {
	w.t.Helper()
	revision = w.repo.push(subject, files("worker/10-motd.bu="+content))
	w.now = w.now.Add(2 * time.Minute)
	w.follow()
	rendered = w.renderPool("worker")
	w.follow()
	return revision, rendered
}

// oldConfigs are rendered configs of pool worker that nothing names, a minute apart and at least a day old.
func (w *world) oldConfigs(count int) {
	w.t.Helper()
	owner := w.pool("worker")
	for n := range count {
		w.create(&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("rendered-worker-%032x", n+1), CreationTimestamp: metav1.NewTime(noon.Add(-24*time.Hour + time.Duration(n)*time.Minute)),
			Annotations:     map[string]string{v1alpha1.GeneratedByAnnotation: "v1"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, mcfgv1.GroupVersion.WithKind("MachineConfigPool"))},
		}})
	}
}

// rendered are the last two digits of the rendered configs' names.
func (w *world) rendered() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.configs())) {
		if strings.HasPrefix(name, "rendered-") {
			out = append(out, name[len(name)-2:])
		}
	}
	return strings.Join(out, " ")
}

func TestAFewRenderedConfigsAreDeletedAMinute(t *testing.T) {
	w := newWorld(t, node("n1", fmt.Sprintf("rendered-worker-%032x", 2), ""))
	w.oldConfigs(18)
	g := w.garbage()
	has(t, "the events", w.sweep(g), "Normal RenderedConfigDeleted: deleted old config rendered-worker-00000000000000000000000000000001: it is unused")
	equal(t, "what is left", w.rendered(), "02 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12")
	equal(t, "a look at once", w.sweep(g), "")
	w.now = w.now.Add(time.Minute)
	w.sweep(g)
	equal(t, "what is left", w.rendered(), "02 09 0a 0b 0c 0d 0e 0f 10 11 12")
	w.now = w.now.Add(time.Minute)
	equal(t, "a look with nothing to do", w.sweep(g), "")
}

func TestOneThatAPoolWasPointedAtAMomentAgoStays(t *testing.T) {
	w := newWorld(t)
	w.oldConfigs(11)
	stale := w.garbage()
	live := newWorld(t)
	change(live, live.pool("worker"), func(p *mcfgv1.MachineConfigPool) { p.Spec.Configuration.Name = fmt.Sprintf("rendered-worker-%032x", 1) })
	stale.Live = live.admin // what the API server has, and the cache not yet
	w.sweep(stale)
	has(t, "what is left", w.rendered(), "01")
}

func TestADeletedConfigThatANodeRunsIsMadeAgainFromItsCommit(t *testing.T) {
	w := newWorld(t, byHand("50-worker-mine", "worker", `{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"mine.service","mask":true}]}}`))
	revision, first := w.deploy("greet", "hello")
	w.deploy("greet louder", "HELLO")
	back, again := w.deploy("Revert", "hello")
	w.deploy("greet loudest", "HELLO!")
	equal(t, "the reverted config", again, first)
	w.create(node("n1", first, first))
	lost := w.config(first)
	w.remove(lost)
	w.restart()
	has(t, "the event", w.sweep(w.garbage()), "Warning RenderedConfigRestored: "+first+" was deleted although node n1 should run it; made again from", `"greet"`)
	mended := w.config(first)
	equal(t, "its content", string(mended.Spec.Config.Raw), string(lost.Spec.Config.Raw))
	equal(t, "its commit", mended.Annotations[v1alpha1.RevisionAnnotation], revision)
	if back == revision {
		t.Error("the revert is no commit of its own")
	}
	equal(t, "its owner", mended.OwnerReferences[0].Name, "worker")
	equal(t, "its inputs", mended.Annotations[v1alpha1.InputsAnnotation], lost.Annotations[v1alpha1.InputsAnnotation])
	equal(t, "a look with nothing to do", w.sweep(w.garbage()), "")
}

func TestTheTargetOfAPoolIsLeftToTheRenderForAWhile(t *testing.T) {
	w := newWorld(t)
	_, target := w.deploy("greet", "hello")
	w.remove(w.config(target))
	g := w.garbage()
	equal(t, "the first look", w.sweep(g), "")
	w.now = w.now.Add(time.Minute)
	has(t, "the second look", w.sweep(g), "RenderedConfigRestored: "+target+" was deleted although pool worker should run it")
}

func TestWhatCannotBeMadeAgainIsToldOnce(t *testing.T) {
	mine := byHand("50-worker-mine", "worker", `{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"mine.service","mask":true}]}}`)
	w := newWorld(t, mine)
	_, first := w.deploy("greet", "hello")
	w.remove(mine)
	w.deploy("greet louder", "HELLO")
	w.create(node("n1", first, first))
	w.create(node("n2", "rendered-worker-00000000000000000000000000000001", "rendered-worker-00000000000000000000000000000001"))
	w.remove(w.config(first))
	g := w.garbage()
	told := w.sweep(g)
	has(t, "the events", told,
		"Warning RenderedConfigLost: "+first+" was deleted although node n1 should run it, and cannot be made again: ", "gives pool worker another config today",
		"Warning RenderedConfigLost: rendered-worker-00000000000000000000000000000001 was deleted although node n2 should run it, and cannot be made again: the history of no GitSource has a commit that gave it")
	fetched := w.repo.fetches
	for range 10 {
		w.now = w.now.Add(30 * time.Second)
		equal(t, "another look", w.sweep(g), "")
	}
	equal(t, "the number of further tries in five minutes", w.repo.fetches-fetched, 2)
	w.create(byHand("50-worker-mine", "worker", string(mine.Spec.Config.Raw)))
	w.now = w.now.Add(time.Hour)
	has(t, "once what it was made of is back", w.sweep(g), "RenderedConfigRestored: "+first)
}

// forgetful is a remote that gives out single commits no more, and has lost its history or not.
type forgetful struct {
	*repository
	lost  bool
	asked []string
}

// Tree asks for a ref.
func (f *forgetful) Tree(ctx context.Context, p source.Picked) (source.Tree, error) {
	f.asked = append(f.asked, p.FullName)
	if f.lost || p.FullName == "" {
		return source.Tree{}, errors.New("the remote has no such commit")
	}
	return f.repository.Tree(ctx, p)
}

func TestARemoteThatGivesOutNoSingleCommitsIsAskedForItsBranch(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t)
		_, first := w.deploy("greet", "hello")
		w.deploy("greet louder", "HELLO")
		w.create(node("n1", first, first))
		w.remove(w.config(first))
		remote := &forgetful{repository: w.repo, lost: lost}
		w.source.Open = func(v1alpha1.GitSourceSpec, controller.Secrets) (controller.Repository, error) { return remote, nil }
		told := w.sweep(w.garbage())
		equal(t, "the questions", fmt.Sprintf("%q", remote.asked), `["" "refs/heads/main"]`)
		if lost {
			has(t, "the event", told, "RenderedConfigLost: "+first, "cannot be made again: fetching main@", "the remote has no such commit")
		} else {
			has(t, "the event", told, "RenderedConfigRestored: "+first)
		}
	}
}
