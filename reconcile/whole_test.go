package reconcile_test

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
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
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
	begin := controllertest.Files("worker/10-motd.bu=one", "gpu/20-driver.bu=one", gpuPool)
	next := controllertest.Files("worker/10-motd.bu=two", "gpu/20-driver.bu=two", "gpu/30-more.bu=two", gpuAlone)
	for sentence, story := range map[string]func(t *testing.T, w *world){
		"what the API server would refuse is refused before the first write": func(t *testing.T, w *world) {
			before := len(w.Writes.Done)
			w.Refuse = "careful"
			w.repo.Push("two", controllertest.Files("worker/10-motd.bu=two", "gpu/20-driver.bu=two",
				strings.Replace(gpuAlone, "maxUnavailable: 1", "maxUnavailable: 2", 1)))
			w.tick()
			w.follow()
			controllertest.Contains(t, "Stalled", w.Condition("Stalled"), "True|ApplyFailed|cluster/gpu.yaml:11: "+
				"applying RolloutPolicy", "careful", "\nin main@sha1:", "; nothing of it is applied")
			for _, write := range w.Writes.Done[before:] {
				if !strings.HasPrefix(write, "update status *v1alpha1.GitSource") {
					t.Errorf("a refused commit led to a write: %s", write)
				}
			}
		},
		"all refusals of the API server are named at once": func(t *testing.T, w *world) {
			w.Refuse = "30-gpu-more careful"
			w.repo.Push("two", strings.Replace(next, "maxUnavailable: 1", "maxUnavailable: 2", 1))
			w.tick()
			w.follow()
			controllertest.Contains(t, "Stalled", w.Condition("Stalled"), `"30-gpu-more"`, `"careful"`)
		},
		"a revision that the API server refuses in the middle is taken back, and rests": func(t *testing.T, w *world) {
			before, was := w.GitSource().Status, w.state()
			w.Refuse, w.Lenient = "gpu", true
			w.repo.Push("two", next)
			w.tick()
			w.follow()
			after := w.GitSource().Status
			controllertest.Equal(t, "the revision in force", after.AppliedRevision, before.AppliedRevision)
			controllertest.Equal(t, "being applied", after.Applying == nil, true)
			controllertest.Contains(t, "Stalled", w.Condition("Stalled"), "True|ApplyFailed|", `"gpu"`)
			controllertest.Equal(t, "the fragments", w.Names(), "10-worker-motd 20-gpu-driver")
			controllertest.Contains(t, "the content", string(w.Config("10-worker-motd").Spec.Config.Raw), "data:,one")
			writes := len(w.Writes.Done)
			for range 4 {
				w.tick()
				w.follow()
			}
			controllertest.Equal(t, "writes while it rests", len(w.Writes.Done), writes)
			w.Refuse = ""
			w.Now = w.Now.Add(11 * time.Minute)
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
			if w.state() == was {
				t.Error("the commit was not applied once the API server took it")
			}
		},
		"no pool that a source feeds is rendered between the first write and the last": func(t *testing.T, w *world) {
			worker, gpu := w.renderPool("worker"), w.renderPool("gpu")
			w.repo.Push("two", next)
			w.tick()
			for n := 0; ; n++ {
				w.Writes.Left = n
				_, _ = w.source.Reconcile(t.Context(), controllertest.Request("os")) // it may die of it
				died := w.Writes.Left == 0
				w.Writes.Left = -1
				if w.GitSource().Status.AppliedRevision != w.repo.Revision() {
					controllertest.Equal(t, "the config of pool worker", w.renderPool("worker"), worker)
					controllertest.Equal(t, "the config of pool gpu", w.renderPool("gpu"), gpu)
				}
				if !died {
					break
				}
			}
			if w.renderPool("worker") == worker || w.renderPool("gpu") == gpu {
				t.Error("the commit was not rendered in the end")
			}
		},
		"an apply that was interrupted is taken back while git is away, from what the cluster keeps": func(t *testing.T,
			w *world,
		) {
			was := w.Objects()
			w.repo.Push("two", next)
			w.tick()
			w.Writes.Left = 6
			_, _ = w.source.Reconcile(t.Context(), controllertest.Request("os"))
			if w.GitSource().Status.Applying == nil || w.Objects() == was {
				t.Fatalf("the apply was not interrupted in the middle:\n%s", strings.Join(w.Writes.Done, "\n"))
			}
			w.restart()
			w.repo.Down = errors.New("no route to host")
			w.repo.Trees = nil
			w.tick()
			w.follow()
			controllertest.Equal(t, "being applied", w.GitSource().Status.Applying == nil, true)
			controllertest.Equal(t, "the objects", w.Objects(), was)
			controllertest.Contains(t, "the events", strings.Join(w.Events.Lines, "\n"), "Warning Restored: restoring ")
		},
		"what somebody edits is restored while git is away, after a restart too": func(t *testing.T, w *world) {
			was := w.Objects()
			w.repo.Down = errors.New("no route to host")
			w.restart()
			controllertest.Modify(w.Cluster, w.Config("10-worker-motd"), func(mc *mcfgv1.MachineConfig) {
				mc.Spec.KernelArguments = []string{"quiet"}
			})
			w.Remove(w.Config("20-gpu-driver"))
			controllertest.Modify(w.Cluster, w.Pool("gpu"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.NodeSelector.MatchLabels = map[string]string{"a": "b"}
			})
			w.tick()
			w.follow()
			controllertest.Equal(t, "the objects", w.Objects(), was)
			controllertest.Contains(t, "the event", strings.Join(w.Events.Lines, "\n"),
				"MachineConfig 10-worker-motd, MachineConfig 20-gpu-driver, MachineConfigPool gpu")
		},
		"a pool that was not the source's before is put back as it was": func(t *testing.T, w *world) {
			infra := controllertest.Pool("infra")
			infra.Labels = map[string]string{"mine": "yes"}
			infra.Spec.NodeSelector.MatchLabels = map[string]string{"mine": "yes"}
			w.Create(infra)
			w.Refuse, w.Lenient = "careful", true
			w.repo.Push("two", controllertest.Files("worker/10-motd.bu=two",
				strings.ReplaceAll(clusterFiles, "openshift.io/v1\nkind: MachineConfigPool",
					"openshift.io/v1\nkind: MachineConfigPool"),
				strings.Replace(gpuAlone, "maxUnavailable: 1", "maxUnavailable: 2", 1)))
			w.tick()
			w.follow()
			controllertest.Contains(t, "Stalled", w.Condition("Stalled"), "True|ApplyFailed|", `"careful"`)
			got := w.Pool("infra")
			controllertest.Equal(t, "its source", got.Labels[v1alpha1.SourceLabel], "")
			controllertest.Equal(t, "its label", got.Labels["mine"], "yes")
			controllertest.Equal(t, "its nodes", metav1.FormatLabelSelector(got.Spec.NodeSelector), "mine=yes")
		},
		"a pool that waits for a whole revision looks again by itself: no event of a pool tells that a policy is " +
			"restored": func(t *testing.T, w *world) {
			controllertest.Modify(w.Cluster, controllertest.Get(w.Cluster, "careful", &v1alpha1.RolloutPolicy{}),
				func(p *v1alpha1.RolloutPolicy) { p.Spec.MaxUnavailable = nil })
			again, err := w.render.Reconcile(t.Context(), controllertest.Request("worker"))
			if err != nil || again.RequeueAfter == 0 || again.RequeueAfter > time.Second {
				t.Errorf("it looks again after %s, %v", again.RequeueAfter, err)
			}
		},
		"a standard pool that somebody deletes is created again": func(t *testing.T, w *world) {
			w.Remove(w.Pool("worker"))
			w.renderPool("worker")
			if w.Pool("worker").Spec.MachineConfigSelector == nil {
				t.Error("it selects nothing")
			}
			controllertest.Contains(t, "the event", w.LastEvent(), "Warning Restored: MachineConfigPool worker was "+
				"deleted and is created again")
		},
		"a standard pool that a user edits is restored, and what the controller never set stays": func(t *testing.T,
			w *world,
		) {
			w.Remove(w.Pool("worker"))
			w.renderPool("worker")
			created := w.Pool("worker").Spec.NodeSelector
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.Paused = true
				p.Spec.MaxUnavailable = new(intstr.FromInt32(2))
				p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"mine": "yes"}}
			})
			w.renderPool("worker")
			got := w.Pool("worker").Spec
			controllertest.Equal(t, "its nodes", metav1.FormatLabelSelector(got.NodeSelector),
				metav1.FormatLabelSelector(created))
			controllertest.Equal(t, "its pause and maxUnavailable", fmt.Sprint(got.Paused, got.MaxUnavailable),
				"true 2")
			controllertest.Contains(t, "the event", w.LastEvent(), "Warning Restored: restored spec.nodeSelector of "+
				"MachineConfigPool worker, changed through the API")
			w.renderPool("worker")
			w.renderPool("worker")
			controllertest.Equal(t, "restores", strings.Count(strings.Join(w.Events.Lines, "; "),
				"Warning Restored: restored"), 1)
		},
		"a standard pool that a user created before the controller stays the user's": func(t *testing.T, w *world) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"mine": "yes"}}
			})
			w.renderPool("worker")
			controllertest.Equal(t, "its nodes", metav1.FormatLabelSelector(w.Pool("worker").Spec.NodeSelector),
				"mine=yes")
		},
		"a suspended source is restored too where an apply was interrupted": func(t *testing.T, w *world) {
			was := w.Objects()
			w.repo.Push("two", next)
			w.tick()
			w.Writes.Left = 6
			_, _ = w.source.Reconcile(t.Context(), controllertest.Request("os"))
			w.restart()
			controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) { s.Spec.Suspend = true })
			w.follow()
			controllertest.Equal(t, "being applied", w.GitSource().Status.Applying == nil, true)
			controllertest.Equal(t, "the objects", w.Objects(), was)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.repo.Push("begin", begin)
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
			story(t, w)
		})
	}
}

// TestAFirstRevision that is refused in the middle leaves nothing behind, and what was handed over to it is as it was.
func TestAFirstRevision(t *testing.T) {
	w := newWorld(t)
	mine := controllertest.ManualConfig("10-worker-motd", "worker", `{"ignition":{"version":"3.5.0"}}`)
	mine.Labels[v1alpha1.SourceLabel] = "os"
	w.Create(mine)
	w.Refuse, w.Lenient = "careful", true
	w.repo.Push("begin", controllertest.Files("worker/10-motd.bu=one", "gpu/20-driver.bu=one", gpuPool))
	w.follow()
	controllertest.Contains(t, "Stalled", w.Condition("Stalled"), "True|ApplyFailed|", `"careful"`)
	controllertest.Equal(t, "what is there", w.Names(), "10-worker-motd")
	controllertest.Equal(t, "its content", string(w.Config("10-worker-motd").Spec.Config.Raw),
		`{"ignition":{"version":"3.5.0"}}`)
	if err := w.Admin.Get(t.Context(), client.ObjectKey{Name: "gpu"}, &mcfgv1.MachineConfigPool{}); err == nil {
		t.Error("pool gpu, which the refused revision created, is still there")
	}
	var kept v1alpha1.RevisionContentList
	if err := w.Admin.List(t.Context(), &kept); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "contents that nothing needs", len(kept.Items), 0)
}

// TestContentsAreDropped: only the content of the revision in force is kept.
func TestContentsAreDropped(t *testing.T) {
	w := newWorld(t)
	for _, content := range []string{"one", "two", "three"} {
		w.repo.Push(content, controllertest.Files("worker/10-motd.bu="+content))
		w.tick()
		w.follow()
	}
	var kept v1alpha1.RevisionContentList
	if err := w.Admin.List(t.Context(), &kept); err != nil {
		t.Fatal(err)
	}
	controllertest.Equal(t, "contents", len(kept.Items), 1)
	controllertest.Equal(t, "its digest", kept.Items[0].Spec.Digest, w.GitSource().Status.AppliedContent)
	if !slices.ContainsFunc(kept.Items[0].OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "GitSource"
	}) {
		t.Error("it does not go with its GitSource")
	}
}
