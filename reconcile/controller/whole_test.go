package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// gpuPool is a custom pool with a selector of its own, and a policy.
const gpuPool = `-- cluster/gpu.yaml --
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: gpu
spec:
  machineConfigSelector:
    matchExpressions: [{key: machineconfiguration.openshift.io/role, operator: In, values: [worker, gpu]}]
  nodeSelector:
    matchLabels: {node-role.kubernetes.io/gpu: ""}
---
apiVersion: bunsen.dev/v1alpha1
kind: RolloutPolicy
metadata:
  name: careful
spec:
  maxUnavailable: 1
`

// gpuAlone is the pool once it inherits nothing.
var gpuAlone = strings.Replace(gpuPool, "[worker, gpu]", "[gpu]", 1)

// TestWholeRevisions is what a revision promises: it takes effect completely or not at all.
func TestWholeRevisions(t *testing.T) {
	begin := files("worker/10-motd.bu=one", "gpu/20-driver.bu=one", gpuPool)
	next := files("worker/10-motd.bu=two", "gpu/20-driver.bu=two", "gpu/30-more.bu=two", gpuAlone)
	for sentence, story := range map[string]func(t *testing.T, w *world){
		"what the API server would refuse is refused before the first write": func(t *testing.T, w *world) {
			before := len(w.life.writes)
			w.refuse = "careful"
			w.repo.push("two", files("worker/10-motd.bu=two", "gpu/20-driver.bu=two", strings.Replace(gpuAlone, "maxUnavailable: 1", "maxUnavailable: 2", 1)))
			w.tick()
			w.follow()
			has(t, "Stalled", w.condition("Stalled"), "True|ApplyFailed|cluster/gpu.yaml:11: applying RolloutPolicy", "careful", "\nin main@sha1:", "; nothing of it is applied")
			for _, write := range w.life.writes[before:] {
				if !strings.HasPrefix(write, "update status *v1alpha1.GitSource") {
					t.Errorf("a refused commit led to a write: %s", write)
				}
			}
		},
		"all refusals of the API server are named at once": func(t *testing.T, w *world) {
			w.refuse = "30-gpu-more careful"
			w.repo.push("two", strings.Replace(next, "maxUnavailable: 1", "maxUnavailable: 2", 1))
			w.tick()
			w.follow()
			has(t, "Stalled", w.condition("Stalled"), `"30-gpu-more"`, `"careful"`)
		},
		"a revision that the API server refuses in the middle is taken back, and rests": func(t *testing.T, w *world) {
			before, was := w.gitSource().Status, w.state()
			w.refuse, w.lenient = "gpu", true
			w.repo.push("two", next)
			w.tick()
			w.follow()
			after := w.gitSource().Status
			equal(t, "the revision in force", after.AppliedRevision, before.AppliedRevision)
			equal(t, "being applied", after.Applying == nil, true)
			has(t, "Stalled", w.condition("Stalled"), "True|ApplyFailed|", `"gpu"`)
			equal(t, "the fragments", w.names(), "10-worker-motd 20-gpu-driver")
			has(t, "the content", string(w.config("10-worker-motd").Spec.Config.Raw), "data:,one")
			writes := len(w.life.writes)
			for range 4 {
				w.tick()
				w.follow()
			}
			equal(t, "writes while it rests", len(w.life.writes), writes)
			w.refuse = ""
			w.now = w.now.Add(11 * time.Minute)
			w.follow()
			has(t, "Ready", w.condition("Ready"), "True|Succeeded")
			if w.state() == was {
				t.Error("the commit was not applied once the API server took it")
			}
		},
		"no pool that a source feeds is rendered between the first write and the last": func(t *testing.T, w *world) {
			worker, gpu := w.renderPool("worker"), w.renderPool("gpu")
			w.repo.push("two", next)
			w.tick()
			for n := 0; ; n++ {
				w.life.left = n
				_, _ = w.source.Reconcile(t.Context(), request("os")) // it may die of it
				died := w.life.left == 0
				w.life.left = -1
				if w.gitSource().Status.AppliedRevision != w.repo.revision() {
					equal(t, "the config of pool worker", w.renderPool("worker"), worker)
					equal(t, "the config of pool gpu", w.renderPool("gpu"), gpu)
				}
				if !died {
					break
				}
			}
			if w.renderPool("worker") == worker || w.renderPool("gpu") == gpu {
				t.Error("the commit was not rendered in the end")
			}
		},
		"an apply that was interrupted is taken back while git is away, from what the cluster keeps": func(t *testing.T, w *world) {
			was := w.objects()
			w.repo.push("two", next)
			w.tick()
			w.life.left = 6
			_, _ = w.source.Reconcile(t.Context(), request("os"))
			if w.gitSource().Status.Applying == nil || w.objects() == was {
				t.Fatalf("the apply was not interrupted in the middle:\n%s", strings.Join(w.life.writes, "\n"))
			}
			w.restart()
			w.repo.down = errors.New("no route to host")
			w.repo.trees = nil
			w.tick()
			w.follow()
			equal(t, "being applied", w.gitSource().Status.Applying == nil, true)
			equal(t, "the objects", w.objects(), was)
			has(t, "the events", strings.Join(w.told.lines, "\n"), "Warning Restored: restoring ")
		},
		"what somebody edits is restored while git is away, after a restart too": func(t *testing.T, w *world) {
			was := w.objects()
			w.repo.down = errors.New("no route to host")
			w.restart()
			change(w, w.config("10-worker-motd"), func(mc *mcfgv1.MachineConfig) { mc.Spec.KernelArguments = []string{"quiet"} })
			w.remove(w.config("20-gpu-driver"))
			change(w, w.pool("gpu"), func(p *mcfgv1.MachineConfigPool) { p.Spec.NodeSelector.MatchLabels = map[string]string{"a": "b"} })
			w.tick()
			w.follow()
			equal(t, "the objects", w.objects(), was)
			has(t, "the event", strings.Join(w.told.lines, "\n"), "MachineConfig 10-worker-motd, MachineConfig 20-gpu-driver, MachineConfigPool gpu")
		},
		"a pool that was not the source's before is put back as it was": func(t *testing.T, w *world) {
			infra := pool("infra")
			infra.Labels = map[string]string{"mine": "yes"}
			infra.Spec.NodeSelector.MatchLabels = map[string]string{"mine": "yes"}
			w.create(infra)
			w.refuse, w.lenient = "careful", true
			w.repo.push("two", files("worker/10-motd.bu=two", strings.ReplaceAll(clusterFiles, "openshift.io/v1\nkind: MachineConfigPool", "openshift.io/v1\nkind: MachineConfigPool"),
				strings.Replace(gpuAlone, "maxUnavailable: 1", "maxUnavailable: 2", 1)))
			w.tick()
			w.follow()
			has(t, "Stalled", w.condition("Stalled"), "True|ApplyFailed|", `"careful"`)
			got := w.pool("infra")
			equal(t, "its source", got.Labels[v1alpha1.SourceLabel], "")
			equal(t, "its label", got.Labels["mine"], "yes")
			equal(t, "its nodes", metav1.FormatLabelSelector(got.Spec.NodeSelector), "mine=yes")
		},
		"a pool that waits for a whole revision looks again by itself: no event of a pool tells that a policy is restored": func(t *testing.T, w *world) {
			change(w, get(w, "careful", &v1alpha1.RolloutPolicy{}), func(p *v1alpha1.RolloutPolicy) { p.Spec.MaxUnavailable = nil })
			again, err := w.render.Reconcile(t.Context(), request("worker"))
			if err != nil || again.RequeueAfter == 0 || again.RequeueAfter > time.Second {
				t.Errorf("it looks again after %s, %v", again.RequeueAfter, err)
			}
		},
		"a standard pool that somebody deletes is created again": func(t *testing.T, w *world) {
			w.remove(w.pool("worker"))
			w.renderPool("worker")
			if w.pool("worker").Spec.MachineConfigSelector == nil {
				t.Error("it selects nothing")
			}
			has(t, "the event", w.lastEvent(), "Warning Restored: MachineConfigPool worker was deleted and is created again")
		},
		"a standard pool that a user edits is restored, and what the controller never set stays": func(t *testing.T, w *world) {
			w.remove(w.pool("worker"))
			w.renderPool("worker")
			created := w.pool("worker").Spec.NodeSelector
			change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.Paused = true
				p.Spec.MaxUnavailable = new(intstr.FromInt32(2))
				p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"mine": "yes"}}
			})
			w.renderPool("worker")
			got := w.pool("worker").Spec
			equal(t, "its nodes", metav1.FormatLabelSelector(got.NodeSelector), metav1.FormatLabelSelector(created))
			equal(t, "its pause and maxUnavailable", fmt.Sprint(got.Paused, got.MaxUnavailable), "true 2")
			has(t, "the event", w.lastEvent(), "Warning Restored: restored spec.nodeSelector of MachineConfigPool worker, changed through the API")
			w.renderPool("worker")
			w.renderPool("worker")
			equal(t, "restores", strings.Count(strings.Join(w.told.lines, "; "), "Warning Restored: restored"), 1)
		},
		"a standard pool that a user created before the controller stays the user's": func(t *testing.T, w *world) {
			change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"mine": "yes"}}
			})
			w.renderPool("worker")
			equal(t, "its nodes", metav1.FormatLabelSelector(w.pool("worker").Spec.NodeSelector), "mine=yes")
		},
		"a suspended source is restored too where an apply was interrupted": func(t *testing.T, w *world) {
			was := w.objects()
			w.repo.push("two", next)
			w.tick()
			w.life.left = 6
			_, _ = w.source.Reconcile(t.Context(), request("os"))
			w.restart()
			change(w, w.gitSource(), func(s *v1alpha1.GitSource) { s.Spec.Suspend = true })
			w.follow()
			equal(t, "being applied", w.gitSource().Status.Applying == nil, true)
			equal(t, "the objects", w.objects(), was)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.repo.push("begin", begin)
			w.follow()
			has(t, "Ready", w.condition("Ready"), "True|Succeeded")
			story(t, w)
		})
	}
}

// TestAFirstRevision that is refused in the middle leaves nothing behind, and what was handed over to it is as it was.
func TestAFirstRevision(t *testing.T) {
	w := newWorld(t)
	mine := byHand("10-worker-motd", "worker", `{"ignition":{"version":"3.5.0"}}`)
	mine.Labels[v1alpha1.SourceLabel] = "os"
	w.create(mine)
	w.refuse, w.lenient = "careful", true
	w.repo.push("begin", files("worker/10-motd.bu=one", "gpu/20-driver.bu=one", gpuPool))
	w.follow()
	has(t, "Stalled", w.condition("Stalled"), "True|ApplyFailed|", `"careful"`)
	equal(t, "what is there", w.names(), "10-worker-motd")
	equal(t, "its content", string(w.config("10-worker-motd").Spec.Config.Raw), `{"ignition":{"version":"3.5.0"}}`)
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: "gpu"}, &mcfgv1.MachineConfigPool{}); err == nil {
		t.Error("pool gpu, which the refused revision created, is still there")
	}
	var kept v1alpha1.RevisionContentList
	if err := w.admin.List(t.Context(), &kept); err != nil {
		t.Fatal(err)
	}
	equal(t, "contents that nothing needs", len(kept.Items), 0)
}

// TestContentsAreDropped: only the content of the revision in force is kept.
func TestContentsAreDropped(t *testing.T) {
	w := newWorld(t)
	for _, content := range []string{"one", "two", "three"} {
		w.repo.push(content, files("worker/10-motd.bu="+content))
		w.tick()
		w.follow()
	}
	var kept v1alpha1.RevisionContentList
	if err := w.admin.List(t.Context(), &kept); err != nil {
		t.Fatal(err)
	}
	equal(t, "contents", len(kept.Items), 1)
	equal(t, "its digest", kept.Items[0].Spec.Digest, w.gitSource().Status.AppliedContent)
	if !slices.ContainsFunc(kept.Items[0].OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "GitSource" }) {
		t.Error("it does not go with its GitSource")
	}
}
