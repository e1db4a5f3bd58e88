package reconcile_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/garbage"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/source"
)

func (w *world) garbage() *garbage.Controller {
	return &garbage.Controller{
		Client: w.Client, Live: w.Admin, Source: w.source, Render: w.render,
		Now: func() time.Time { return w.Now }, Events: w.Events,
	}
}

// sweep lets the controller look once, and returns the events of it.
func (w *world) sweep(g *garbage.Controller) string {
	w.T.Helper()
	before := len(w.Events.Lines)
	res, err := g.Reconcile(w.T.Context(), controllertest.Request("rendered"))
	if err != nil {
		w.T.Fatalf("collecting garbage: %v", err)
	}
	if res.RequeueAfter != time.Minute {
		w.T.Errorf("the next look is in %s", res.RequeueAfter)
	}
	return strings.Join(w.Events.Lines[before:], "\n")
}

// deploy pushes one file, renders pool worker and lets the history know.
func (w *world) deploy(subject, content string) (revision, rendered string) {
	w.T.Helper()
	revision = w.repo.Push(subject, controllertest.Files("worker/10-motd.bu="+content))
	w.Now = w.Now.Add(2 * time.Minute)
	w.follow()
	rendered = w.renderPool("worker")
	w.follow()
	return revision, rendered
}

// oldConfigs are rendered configs of pool worker that nothing names, a minute apart and at least a day old.
func (w *world) oldConfigs(count int) {
	w.T.Helper()
	owner := w.Pool("worker")
	for n := range count {
		w.Create(&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name:              fmt.Sprintf("rendered-worker-%032x", n+1),
			CreationTimestamp: metav1.NewTime(controllertest.Noon.Add(-24*time.Hour + time.Duration(n)*time.Minute)),
			Annotations:       map[string]string{v1alpha1.GeneratedByAnnotation: "v1"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner,
				mcfgv1.GroupVersion.WithKind("MachineConfigPool"))},
		}})
	}
}

// rendered are the last two digits of the rendered configs' names.
func (w *world) rendered() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.Configs())) {
		if strings.HasPrefix(name, "rendered-") {
			out = append(out, name[len(name)-2:])
		}
	}
	return strings.Join(out, " ")
}

func TestAFewRenderedConfigsAreDeletedAMinute(t *testing.T) {
	w := newWorld(t, controllertest.Node("n1", fmt.Sprintf("rendered-worker-%032x", 2), ""))
	w.oldConfigs(18)
	g := w.garbage()
	controllertest.Contains(t, "the events", w.sweep(g), "Normal RenderedConfigDeleted: deleted old config "+
		"rendered-worker-00000000000000000000000000000001: it is unused")
	controllertest.Equal(t, "what is left", w.rendered(), "02 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12")
	controllertest.Equal(t, "a look at once", w.sweep(g), "")
	w.Now = w.Now.Add(time.Minute)
	w.sweep(g)
	controllertest.Equal(t, "what is left", w.rendered(), "02 09 0a 0b 0c 0d 0e 0f 10 11 12")
	w.Now = w.Now.Add(time.Minute)
	controllertest.Equal(t, "a look with nothing to do", w.sweep(g), "")
}

func TestOneThatAPoolWasPointedAtAMomentAgoStays(t *testing.T) {
	w := newWorld(t)
	w.oldConfigs(11)
	stale := w.garbage()
	live := newWorld(t)
	controllertest.Modify(live.Cluster, live.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
		p.Spec.Configuration.Name = fmt.Sprintf("rendered-worker-%032x", 1)
	})
	stale.Live = live.Admin // what the API server has, and the cache not yet
	w.sweep(stale)
	controllertest.Contains(t, "what is left", w.rendered(), "01")
}

func TestADeletedConfigThatANodeRunsIsMadeAgainFromItsCommit(t *testing.T) {
	w := newWorld(t, controllertest.ManualConfig("50-worker-mine", "worker",
		`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"mine.service","mask":true}]}}`))
	revision, first := w.deploy("greet", "hello")
	w.deploy("greet louder", "HELLO")
	back, again := w.deploy("Revert", "hello")
	w.deploy("greet loudest", "HELLO!")
	controllertest.Equal(t, "the reverted config", again, first)
	w.Create(controllertest.Node("n1", first, first))
	lost := w.Config(first)
	w.Remove(lost)
	w.restart()
	controllertest.Contains(t, "the event", w.sweep(w.garbage()), "Warning RenderedConfigRestored: "+first+
		" was deleted although node n1 should run it; created again from", `"greet"`)
	mended := w.Config(first)
	controllertest.Equal(t, "its content", string(mended.Spec.Config.Raw), string(lost.Spec.Config.Raw))
	controllertest.Equal(t, "its commit", mended.Annotations[v1alpha1.RevisionAnnotation], revision)
	if back == revision {
		t.Error("the revert is no commit of its own")
	}
	controllertest.Equal(t, "its owner", mended.OwnerReferences[0].Name, "worker")
	controllertest.Equal(t, "its inputs", mended.Annotations[v1alpha1.InputsAnnotation],
		lost.Annotations[v1alpha1.InputsAnnotation])
	controllertest.Equal(t, "a look with nothing to do", w.sweep(w.garbage()), "")
}

// TestDeletedLargeFilesAreWrittenAgain: a user deletes the repository of the content store.
func TestDeletedLargeFilesAreWrittenAgain(t *testing.T) {
	w := newWorld(t)
	registry := newLargeFiles(t)
	store := &content.Store{Client: w.Client, Registry: registry, Now: func() time.Time { return w.Now }}
	w.source.Applier.Contents, w.render.Contents = store, store
	w.transpiler.LargeFiles, w.render.Defaults.LargeFiles = true, true
	noise := make([]byte, 2<<20)
	rand.New(rand.NewSource(1)).Read(noise)
	text := base64.StdEncoding.EncodeToString(noise)
	w.repo.Push("a large file", "-- pools/worker/10-large.bu --\nvariant: fcos\nversion: 1.6.0\nstorage:\n  files:\n"+
		"    - path: /opt/large\n      contents: {local: large}\n-- pools/worker/large --\n"+text+"\n")
	w.follow()
	target := w.renderPool("worker")
	w.follow()
	g := w.garbage()
	g.Contents = store
	hashes := map[string]bool{}
	machineconfig.AddContentHashes(hashes, w.Config(target))
	has := func() {
		t.Helper()
		for hash := range hashes {
			if there, err := registry.Has(t.Context(), hash); err != nil || !there {
				t.Errorf("the registry has the file: %v, %v", there, err)
			}
		}
	}
	controllertest.Equal(t, "the number of files", len(hashes), 1)
	has()
	controllertest.Equal(t, "a look with nothing to do", w.sweep(g), "")
	for range 2 {
		registry.forget()
		controllertest.Equal(t, "a look at once", w.sweep(g), "")
		w.Now = w.Now.Add(10 * time.Minute)
		controllertest.Contains(t, "the event", w.sweep(g), "Warning ContentRestored: large files of "+target+
			" were deleted although pool worker should run it; written again from ")
		has()
	}
	w.repo.Trees = nil
	registry.forget()
	w.Now = w.Now.Add(10 * time.Minute)
	controllertest.Contains(t, "without the commit", w.sweep(g), "Warning ContentLost: large files of "+target+
		" were deleted although pool worker should run it, and the controller cannot write them again, so no new "+
		"machine boots with it: ", "Push a commit that renders it, or another config")
}

func TestTheTargetOfAPoolIsLeftToTheRenderForAWhile(t *testing.T) {
	w := newWorld(t)
	_, target := w.deploy("greet", "hello")
	w.Remove(w.Config(target))
	g := w.garbage()
	controllertest.Equal(t, "the first look", w.sweep(g), "")
	w.Now = w.Now.Add(time.Minute)
	controllertest.Contains(t, "the second look", w.sweep(g), "RenderedConfigRestored: "+target+
		" was deleted although pool worker should run it")
}

func TestWhatCannotBeMadeAgainIsToldOnce(t *testing.T) {
	mine := controllertest.ManualConfig("50-worker-mine", "worker",
		`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"mine.service","mask":true}]}}`)
	w := newWorld(t, mine)
	_, first := w.deploy("greet", "hello")
	w.Remove(mine)
	w.deploy("greet louder", "HELLO")
	w.Create(controllertest.Node("n1", first, first))
	w.Create(controllertest.Node("n2", "rendered-worker-00000000000000000000000000000001",
		"rendered-worker-00000000000000000000000000000001"))
	w.Remove(w.Config(first))
	g := w.garbage()
	told := w.sweep(g)
	controllertest.Contains(t, "the events", told,
		"Warning RenderedConfigLost: "+first+" was deleted although node n1 should run it, and cannot be created "+
			"again: ", "no longer renders to config ",
		"Warning RenderedConfigLost: rendered-worker-00000000000000000000000000000001 was deleted although node n2 "+
			"should run it, and cannot be created again: the history of no GitSource has a commit that gave it")
	fetched := w.repo.Fetches
	for range 10 {
		w.Now = w.Now.Add(30 * time.Second)
		controllertest.Equal(t, "another look", w.sweep(g), "")
	}
	controllertest.Equal(t, "the number of further tries in five minutes", w.repo.Fetches-fetched, 2)
	w.Create(controllertest.ManualConfig("50-worker-mine", "worker", string(mine.Spec.Config.Raw)))
	w.Now = w.Now.Add(time.Hour)
	controllertest.Contains(t, "once what it was made of is back", w.sweep(g), "RenderedConfigRestored: "+first)
}

// forgetful is a remote that gives out single commits no more, and has lost its history or not.
type forgetful struct {
	*controllertest.Repository
	lost  bool
	asked []string
}

// Tree asks for a ref.
func (f *forgetful) Tree(ctx context.Context, p source.Picked) (source.Tree, error) {
	f.asked = append(f.asked, p.FullName)
	if f.lost || p.FullName == "" {
		return source.Tree{}, errors.New("the remote has no such commit")
	}
	return f.Repository.Tree(ctx, p)
}

func TestARemoteThatGivesOutNoSingleCommitsIsAskedForItsBranch(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t)
		_, first := w.deploy("greet", "hello")
		w.deploy("greet louder", "HELLO")
		w.Create(controllertest.Node("n1", first, first))
		w.Remove(w.Config(first))
		remote := &forgetful{Repository: w.repo, lost: lost}
		w.source.Open = func(v1alpha1.GitSourceSpec, source.Secrets) (gitsource.Repository, error) {
			return remote, nil
		}
		told := w.sweep(w.garbage())
		controllertest.Equal(t, "the questions", fmt.Sprintf("%q", remote.asked), `["" "refs/heads/main"]`)
		if lost {
			controllertest.Contains(t, "the event", told, "RenderedConfigLost: "+first,
				"cannot be created again: fetching main@", "the remote has no such commit")
		} else {
			controllertest.Contains(t, "the event", told, "RenderedConfigRestored: "+first)
		}
	}
}
