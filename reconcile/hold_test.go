package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// hold writes what `bunsen hold` writes; an empty config is what `bunsen release` writes.
func (w *world) hold(config, revision string) {
	w.T.Helper()
	controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		for key, value := range map[string]string{
			v1alpha1.HoldAnnotation: config, v1alpha1.HeldRevisionAnnotation: revision,
			v1alpha1.HeldByAnnotation: "ada: the new kernel loses packets",
		} {
			if delete(p.Annotations, key); config != "" {
				p.Annotations[key] = value
			}
		}
	})
}

// TestHold: a held pool gets the config of an earlier revision without the repository, keeps it while the source
// continues, and follows again after the release.
func TestHold(t *testing.T) {
	w := newWorld(t)
	first, a := w.deploy("One", "1")
	_, b := w.deploy("Two", "2")
	w.repo.Down = errors.New("no route to host")
	w.hold(a, first)
	controllertest.Equal(t, "the config of the held pool", w.renderPool("worker"), a)
	p := w.Pool("worker")
	controllertest.Equal(t, "its revision", p.Annotations[v1alpha1.RevisionAnnotation], first)
	target, err := v1alpha1.ParsePoolTarget(p.Annotations[v1alpha1.TargetAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "who requested it", target.Config+" "+target.Subject, a+" One")
	controllertest.Contains(t, "the event", w.LastEvent(), "Held: a user holds pool worker at "+a)

	w.repo.Down = nil
	third, kept := w.deploy("Three", "3")
	controllertest.Equal(t, "the config after a commit", kept, a)
	w.restart()
	w.follow()
	controllertest.Equal(t, "the config after a restart", w.renderPool("worker"), a)
	for _, e := range w.GitSource().Status.History {
		if e.Revision == third && e.Pools["worker"] != "" {
			t.Errorf("the history says that the newest commit gave %s", e.Pools["worker"])
		}
	}

	w.hold("", "")
	c := w.renderPool("worker")
	if c == a || c == b {
		t.Errorf("the released pool has the config %s", c)
	}
	w.follow()
	controllertest.Equal(t, "the history of the newest commit", w.GitSource().Status.History[0].Pools["worker"], c)
	target, err = v1alpha1.ParsePoolTarget(w.Pool("worker").Annotations[v1alpha1.TargetAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "who requested it", target.Subject+" "+target.APIText(), "Three ")
}

// TestHoldIsRefused: who may only write pools gets no other config onto nodes than one that the controller rendered for
// this pool.
func TestHoldIsRefused(t *testing.T) {
	for name, prepare := range map[string]func(w *world, a string) (config, want string){
		"a config that does not exist": func(*world, string) (string, string) {
			return "rendered-worker-00000000000000000000000000000000", "it does not exist"
		},
		"a MachineConfig that is not rendered": func(*world, string) (string, string) {
			return "10-worker-motd", "it is not a rendered config of this pool"
		},
		"a config of another pool": func(w *world, _ string) (string, string) {
			w.repo.Push("More", controllertest.Files("worker/10-motd.bu=2", "master/10-motd.bu=2"))
			w.Now = w.Now.Add(2 * time.Minute)
			w.follow()
			return w.renderPool("master"), "it is not a rendered config of this pool"
		},
		"an edited config": func(w *world, a string) (string, string) {
			controllertest.Modify(w.Cluster, w.Config(a), func(mc *mcfgv1.MachineConfig) {
				mc.Spec.KernelArguments = []string{"init=/bin/sh"}
			})
			return a, "a user edited its content"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first, a := w.deploy("One", "1")
			_, b := w.deploy("Two", "2")
			config, want := prepare(w, a)
			w.hold(config, first)
			controllertest.Equal(t, "the config", w.renderPool("worker"), b)
			controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "True|", want, "bunsen release pool/worker")
		})
	}
}

// TestGarbageKeepsAHeldConfig: no history and no node may name it any more.
func TestGarbageKeepsAHeldConfig(t *testing.T) {
	w := newWorld(t)
	w.oldConfigs(18)
	held := "rendered-worker-" + strings.Repeat("0", 31) + "1"
	w.hold(held, "main@sha1:"+strings.Repeat("1", 40))
	g := w.garbage()
	for range 3 {
		w.sweep(g)
		w.Now = w.Now.Add(time.Minute)
	}
	w.Config(held) // fails the test if it is gone
}
