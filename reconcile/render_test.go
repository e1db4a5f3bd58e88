package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// push makes a commit and lets the source controller apply it.
func (w *world) push(subject string, parts ...string) string {
	w.T.Helper()
	revision := w.repo.Push(subject, controllertest.Files(parts...))
	w.tick()
	w.follow()
	if c := w.Condition("Ready"); !strings.HasPrefix(c, "True") {
		w.T.Fatalf("applying %q: %s", subject, c)
	}
	return revision
}

const linked = `-- pools/worker/20-link.bu --
variant: fcos
version: 1.6.0
storage:
  links:
    - path: /etc/localtime
      target: ../usr/share/zoneinfo/UTC
`

const guarded = `-- pools/worker/20-group.bu --
variant: fcos
version: 1.6.0
passwd:
  groups:
    - name: ops
      password_hash: $6$x$y
`

const mirrored = `-- pools/worker/30-disks.bu --
variant: fcos
version: 1.6.0
storage:
  disks:
    - device: /dev/vdb
      wipe_table: true
`

// managed answers with the field managers of an object, which the cluster in memory does not keep.
type managed struct {
	client.Reader
	object client.Object
}

// Get adds them to the object's metadata.
func (m managed) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	err := m.Reader.Get(ctx, key, into, opts...)
	if _, metadata := into.(*metav1.PartialObjectMetadata); metadata && key.Name == m.object.GetName() {
		into.SetManagedFields(m.object.GetManagedFields())
	}
	return err
}

// TestRendering is what the render controller promises, a sentence each. Every story begins with one commit applied.
func TestRendering(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *world, first string){
		"a pool gets a config that names its commit, and its inputs in the order of merging": func(t *testing.T,
			w *world, first string,
		) {
			w.Create(controllertest.ManualConfig("00-mine", "worker", `{"ignition":{"version":"3.2.0"}}`))
			name := w.renderPool("worker")
			mc := w.Config(name)
			a := mc.Annotations
			controllertest.Equal(t, "its source", a[v1alpha1.SourceAnnotation]+" "+a[v1alpha1.RepositoryAnnotation],
				"os https://git.example.com/os")
			controllertest.Equal(t, "its commit", a[v1alpha1.RevisionAnnotation]+" "+
				a[v1alpha1.CommitSubjectAnnotation]+" "+a[v1alpha1.CommitAuthorAnnotation],
				first+" begin Ada <ada@example.com>")
			controllertest.Equal(t, "its time", a[v1alpha1.CommitTimeAnnotation], "2026-01-02T12:01:00Z")
			controllertest.Equal(t, "its owner", mc.OwnerReferences[0].Kind+" "+mc.OwnerReferences[0].Name,
				"MachineConfigPool worker")
			var inputs map[string]string
			if err := json.Unmarshal([]byte(a[v1alpha1.InputsAnnotation]), &inputs); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "a digest among its inputs", inputs["10-worker-motd"],
				w.Config("10-worker-motd").Annotations[v1alpha1.DigestAnnotation])
			p := w.Pool("worker")
			var sources []string
			for _, s := range p.Spec.Configuration.Source {
				sources = append(sources, s.Name)
			}
			controllertest.Equal(t, "spec.configuration.source", strings.Join(sources, " "), "00-mine 10-worker-motd")
			controllertest.Equal(t, "the pool's revision", p.Annotations[v1alpha1.RevisionAnnotation], first)
			controllertest.Contains(t, "the event", w.LastEvent(), "Normal RenderedConfigGenerated: "+name, `"begin"`)
		},
		"looking again writes nothing": func(t *testing.T, w *world, _ string) {
			w.renderPool("worker")
			w.Writes.Done = nil
			w.renderPool("worker")
			controllertest.Equal(t, "writes", strings.Join(w.Writes.Done, ", "), "")
		},
		"two pools render apart": func(t *testing.T, w *world, _ string) {
			master := w.renderPool("master")
			worker := w.renderPool("worker")
			w.push("worker only", "worker/10-motd.bu=changed", "master/10-motd.bu=one")
			if got := w.renderPool("worker"); got == worker {
				t.Error("pool worker did not move")
			}
			controllertest.Equal(t, "pool master", w.renderPool("master"), master)
		},
		"it waits while a source is half applied": func(t *testing.T, w *world, _ string) {
			before := w.renderPool("worker")
			w.repo.Push("three", controllertest.Files("worker/10-motd.bu=two", "worker/20-issue.bu=two",
				"worker/30-limits.bu=two", "master/10-motd.bu=one"))
			w.tick()
			w.Writes.Left = 2
			w.attempt()
			w.restart()
			controllertest.Equal(t, "while it is half applied", w.renderPool("worker"), before)
			w.follow()
			if got := w.renderPool("worker"); got == before {
				t.Error("pool worker did not move once the commit was whole")
			}
		},
		"it waits while a fragment is edited by hand": func(t *testing.T, w *world, _ string) {
			before := w.renderPool("worker")
			controllertest.Modify(w.Cluster, w.Config("10-worker-motd"), func(mc *mcfgv1.MachineConfig) {
				mc.Spec.KernelArguments = []string{"quiet"}
			})
			controllertest.Equal(t, "the rendered config", w.renderPool("worker"), before)
		},
		"a revert returns to the earlier name, and what that says of its commit stays": func(t *testing.T, w *world,
			first string,
		) {
			before := w.renderPool("worker")
			w.push("change", "worker/10-motd.bu=two", "master/10-motd.bu=one")
			w.renderPool("worker")
			again := w.push("revert", "worker/10-motd.bu=one", "master/10-motd.bu=one")
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			controllertest.Equal(t, "its revision", w.Config(before).Annotations[v1alpha1.RevisionAnnotation], first)
			controllertest.Equal(t, "the pool's revision", w.Pool("worker").Annotations[v1alpha1.RevisionAnnotation],
				again)
		},
		"a commit that changes nothing for a pool gives it no new config": func(t *testing.T, w *world, first string) {
			before := w.renderPool("worker")
			again := w.push("explain", "worker/10-motd.bu=one", "master/10-motd.bu=one", "-- README.md --\nHi.\n")
			w.Writes.Done = nil
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			controllertest.Equal(t, "its revision", w.Config(before).Annotations[v1alpha1.RevisionAnnotation], first)
			controllertest.Equal(t, "the pool's revision", w.Pool("worker").Annotations[v1alpha1.RevisionAnnotation],
				again)
		},
		"a pool that nobody has written for yet is not degraded": func(t *testing.T, w *world, _ string) {
			w.Create(controllertest.Pool("gpu"))
			controllertest.Equal(t, "the name", w.renderPool("gpu"), "")
			controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("gpu"),
				mcfgv1.MachineConfigPoolRenderDegraded), "False|")
		},
		"an image of the API without a digest reaches the pool, and the pool says so until it is gone": func(
			t *testing.T, w *world, _ string,
		) {
			before := w.renderPool("worker")
			hand := controllertest.ManualConfig("99-worker-os", "worker", `{"ignition":{"version":"3.2.0"}}`)
			hand.Spec.OSImageURL = "quay.io/example/os:41"
			w.Create(hand)
			name := w.renderPool("worker")
			controllertest.Equal(t, "the image", w.Config(name).Spec.OSImageURL, hand.Spec.OSImageURL)
			controllertest.Contains(t, "ImageWithoutDigest", controllertest.PoolCondition(w.Pool("worker"),
				v1alpha1.ImageWithoutDigestCondition),
				`True|MachineConfig 99-worker-os: osImageURL: "quay.io/example/os:41" names no digest`)
			w.Remove(w.Config("99-worker-os"))
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			controllertest.Contains(t, "ImageWithoutDigest", controllertest.PoolCondition(w.Pool("worker"),
				v1alpha1.ImageWithoutDigestCondition), "False|")
		},
		"a pool that lost all its documents keeps its config, and says so with the way out": func(t *testing.T,
			w *world, _ string,
		) {
			before := w.renderPool("worker")
			w.push("forget the workers", "master/10-motd.bu=one")
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "True|Failed to render configuration for pool worker: ",
				"no MachineConfig matches its selector any more; its nodes keep "+before)
		},
		"what a deleted source left whole stays in force, and takes another layer": func(t *testing.T, w *world,
			_ string,
		) {
			before := w.renderPool("worker")
			w.Remove(w.GitSource())
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			w.Create(controllertest.ManualConfig("99-worker-hand", "worker", handMade))
			if w.renderPool("worker") == before {
				t.Error("the layer by hand was not taken")
			}
		},
		"a MachineConfig made through the API has asked for the config, with its field manager, and the commit that " +
			"was there has not": func(t *testing.T, w *world, first string) {
			before := w.renderPool("worker")
			w.follow()
			hand := controllertest.ManualConfig("99-worker-hand", "worker", handMade)
			at := metav1.NewTime(controllertest.Noon.Add(3 * time.Minute))
			hand.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: "kubectl-client-side-apply", Operation: metav1.ManagedFieldsOperationUpdate, Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:config":{}}}`)},
			}
			kept := hand.DeepCopy()
			w.Create(hand)
			w.render.Live = managed{w.Admin, kept}
			after := w.renderPool("worker")
			const change = "MachineConfig 99-worker-hand, made through the API (kubectl-client-side-apply) at " +
				"2026-01-02 12:03 UTC"
			asked := v1alpha1.RequesterOf(w.Pool("worker").Annotations, after)
			controllertest.Equal(t, "who asked", fmt.Sprint(asked.ByAPI(), asked.APIText()), "true"+change)
			controllertest.Contains(t, "the event", w.LastEvent(), "RenderedConfigGenerated: "+after+" from "+change)
			w.follow()
			controllertest.Equal(t, "what the commit gave", w.GitSource().Status.History[0].Pools["worker"], before)
			w.push("explain", "worker/10-motd.bu=one", "master/10-motd.bu=one", "-- README.md --\nHi.\n")
			controllertest.Equal(t, "the name after a commit without effect", w.renderPool("worker"), after)
			w.follow()
			controllertest.Equal(t, "what that commit gave", w.GitSource().Status.History[0].Pools["worker"], after)
			controllertest.Equal(t, "what the one before gave", w.GitSource().Status.History[1].Pools["worker"], before)
			asked = v1alpha1.RequesterOf(w.Pool("worker").Annotations, after)
			controllertest.Equal(t, "who asked, still", asked.APIText(), change)
			w.Remove(w.Config("99-worker-hand"))
			controllertest.Equal(t, "the name without it", w.renderPool("worker"), before)
			asked = v1alpha1.RequesterOf(w.Pool("worker").Annotations, before)
			controllertest.Equal(t, "who asked for that", asked.Text(func(c v1alpha1.CommitRef) string {
				return c.Revision
			}), first+" after MachineConfig 99-worker-hand was deleted through the API")
		},
		"a change through the API is the cause also where the pool lost its record while no controller ran": func(
			t *testing.T, w *world, _ string,
		) {
			w.renderPool("worker")
			w.follow()
			w.Create(controllertest.ManualConfig("99-worker-hand", "worker", handMade))
			name := w.renderPool("worker")
			w.Remove(w.Pool("worker"))
			w.renderPool("worker") // creates the pool without its record: nobody saw the deletion
			controllertest.Equal(t, "the name", w.renderPool("worker"), name)
			asked := v1alpha1.RequesterOf(w.Pool("worker").Annotations, name)
			if !asked.ByAPI() || asked.API[0].Name != "99-worker-hand" {
				t.Errorf("asked: %+v", asked)
			}
		},
		"in a pool without nodes a change through the API is not named beside later commits": func(t *testing.T,
			w *world, _ string,
		) {
			w.renderPool("worker")
			w.follow()
			w.Create(controllertest.ManualConfig("99-worker-hand", "worker", handMade))
			w.renderPool("worker")
			counted := w.Pool("worker")
			counted.Status.ObservedGeneration = counted.Generation + 1
			if err := w.Admin.Status().Update(t.Context(), counted); err != nil {
				t.Fatal(err)
			}
			second := w.push("more", "worker/10-motd.bu=two", "master/10-motd.bu=one")
			name := w.renderPool("worker")
			asked := v1alpha1.RequesterOf(w.Pool("worker").Annotations, name)
			controllertest.Equal(t, "who asked", asked.Text(func(c v1alpha1.CommitRef) string { return c.Revision }),
				second)
		},
		"a config that several commits render to is no half commit once its source is deleted": func(t *testing.T,
			w *world, _ string,
		) {
			w.push("link", "worker/10-motd.bu=one", "master/10-motd.bu=one", linked)
			first := w.renderPool("worker")
			w.push("the same again", "worker/10-motd.bu=one", "master/10-motd.bu=one",
				strings.ReplaceAll(linked, "20-link", "30-link"))
			before := w.renderPool("worker")
			controllertest.Equal(t, "the name of both", before, first)
			w.Remove(w.GitSource())
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			controllertest.Equal(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "False|")
		},
		"without a source, what users create and delete through the API is rendered": func(t *testing.T, w *world,
			_ string,
		) {
			before := w.renderPool("worker")
			w.Remove(w.GitSource())
			w.renderPool("worker")
			w.Create(controllertest.ManualConfig("99-by-hand", "worker",
				`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/hand","contents":{"source":"data:,1"}}]}}`))
			if w.renderPool("worker") == before {
				t.Error("the new MachineConfig was not rendered")
			}
			w.Remove(w.Config("99-by-hand"))
			controllertest.Equal(t, "the name without it", w.renderPool("worker"), before)
			controllertest.Equal(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "False|")
		},
		"half a commit that a deleted source left never reaches a node": func(t *testing.T, w *world, _ string) {
			before := w.renderPool("worker")
			controllertest.Modify(w.Cluster, w.Config("10-worker-motd"), func(mc *mcfgv1.MachineConfig) {
				mc.Spec.KernelArguments = []string{"quiet"}
			})
			w.Remove(w.GitSource())
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "True|", `GitSource "os" was deleted`,
				"create the GitSource again")
			controllertest.Modify(w.Cluster, w.Config("10-worker-motd"), func(mc *mcfgv1.MachineConfig) {
				delete(mc.Labels, v1alpha1.SourceLabel)
			})
			if w.renderPool("worker") == before {
				t.Error("it was not rendered once its label was removed")
			}
		},
		"the history says which commit could not be rendered, and never gives it the reason of another one": func(
			t *testing.T, w *world, _ string,
		) {
			w.renderPool("worker")
			bad := w.push("group", "worker/10-motd.bu=one", "master/10-motd.bu=one", guarded)
			controllertest.Equal(t, "before it is rendered", w.GitSource().Status.History[0].NotRendered["worker"], "")
			w.renderPool("worker")
			controllertest.Equal(t, "the revision of RenderDegraded",
				w.Pool("worker").Annotations[v1alpha1.NotRenderedAnnotation], bad)
			w.follow()
			controllertest.Contains(t, "the reason", w.GitSource().Status.History[0].NotRendered["worker"],
				"running nodes cannot take", "passwd.groups ops")
			w.push("motd two", "worker/10-motd.bu=two", "master/10-motd.bu=one", guarded)
			w.follow()
			controllertest.Equal(t, "of a commit that is not rendered yet, while the condition is still about the "+
				"one before", w.GitSource().Status.History[0].NotRendered["worker"], "")
			w.push("good again", "worker/10-motd.bu=three", "master/10-motd.bu=one")
			w.renderPool("worker")
			controllertest.Equal(t, "the revision of RenderDegraded, which is over",
				w.Pool("worker").Annotations[v1alpha1.NotRenderedAnnotation], "")
		},
		"an empty selector selects nothing": func(t *testing.T, w *world, _ string) {
			p := controllertest.Pool("all")
			p.Spec.MachineConfigSelector = &metav1.LabelSelector{}
			w.Create(p)
			controllertest.Equal(t, "the name", w.renderPool("all"), "")
		},
		"what running nodes cannot take is refused with reason and place, and the old config stays": func(
			t *testing.T, w *world, _ string,
		) {
			before := w.renderPool("worker")
			w.push("group", "worker/10-motd.bu=one", "master/10-motd.bu=one", guarded)
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			controllertest.Equal(t, "rendered configs", strings.Count(strings.Join(keys(w.Configs()), " "),
				"rendered-worker-"), 1)
			controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded),
				"True|", "running nodes cannot take", "passwd.groups ops", "first boot only",
				"20-worker-group (pools/worker/20-group.bu)")
			w.push("no group", "worker/10-motd.bu=two", "master/10-motd.bu=one")
			if got := w.renderPool("worker"); got == before {
				t.Error("the next good commit did not go through")
			}
			controllertest.Equal(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "False|")
		},
		"with OpenShift's limits asked for, a symbolic link is refused too, and taken once they are not": func(
			t *testing.T, w *world, _ string,
		) {
			before := w.renderPool("worker")
			limits := &operatorv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{
				Name:        "cluster",
				Annotations: map[string]string{disruption.InPlaceAnnotation: "openshift"},
			}}
			w.Create(limits)
			w.push("link", "worker/10-motd.bu=one", "master/10-motd.bu=one", linked)
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "True|", "storage.links", disruption.InPlaceAnnotation)
			w.Remove(limits)
			if w.renderPool("worker") == before {
				t.Error("the link was not taken")
			}
		},
		"marks of secrets are on the rendered config, and follow what the objects say now": func(t *testing.T, w *world,
			_ string,
		) {
			marked := func(paths string) map[string]string {
				return map[string]string{v1alpha1.SecretPathsAnnotation: paths}
			}
			name := w.renderPool("worker")
			controllertest.Equal(t, "marks at first", w.Config(name).Annotations[v1alpha1.SecretPathsAnnotation], "")
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Annotations = marked("vault.service, /etc/[")
			})
			w.Create(&operatorv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{
				Name:        "cluster",
				Annotations: marked("/etc/vault/"),
			}})
			controllertest.Equal(t, "the name", w.renderPool("worker"), name)
			controllertest.Equal(t, "marks of the pool and of all",
				w.Config(name).Annotations[v1alpha1.SecretPathsAnnotation], "/etc/vault/,vault.service")
			mine := controllertest.ManualConfig("99-mine", "worker",
				`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/mine"}]}}`)
			mine.Annotations = marked("/etc/mine")
			w.Create(mine)
			second := w.renderPool("worker")
			controllertest.Equal(t, "marks with those of a MachineConfig",
				w.Config(second).Annotations[v1alpha1.SecretPathsAnnotation], "/etc/mine,/etc/vault/,vault.service")
			controllertest.Modify(w.Cluster, w.Config(second), func(mc *mcfgv1.MachineConfig) {
				delete(mc.Annotations, v1alpha1.SecretPathsAnnotation)
			})
			w.renderPool("worker")
			controllertest.Equal(t, "marks that a user removed",
				w.Config(second).Annotations[v1alpha1.SecretPathsAnnotation], "/etc/mine,/etc/vault/,vault.service")
			controllertest.Equal(t, "all marks of the pool", w.Pool("worker").
				Annotations[v1alpha1.PoolSecretPathsAnnotation], "/etc/mine,/etc/vault/,vault.service")
			controllertest.Equal(t, "marks of an earlier config",
				w.Config(name).Annotations[v1alpha1.SecretPathsAnnotation], "/etc/mine,/etc/vault/,vault.service")
			controllertest.Equal(t, "marks of the other pool",
				w.Config(w.renderPool("master")).Annotations[v1alpha1.SecretPathsAnnotation], "/etc/vault/")
		},
		"what only new nodes get goes through, and is told": func(t *testing.T, w *world, _ string) {
			before := w.renderPool("worker")
			w.push("disks", "worker/10-motd.bu=one", "master/10-motd.bu=one", mirrored)
			if w.renderPool("worker") == before {
				t.Error("the pool did not move")
			}
			controllertest.Equal(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "False|")
			controllertest.Contains(t, "the event", w.LastEvent(), "Warning NewNodesOnly: storage.disks /dev/vdb: "+
				"existing nodes will not get this")
		},
		"what is set twice is told, and stops nothing": func(t *testing.T, w *world, _ string) {
			w.push("twice", "worker/10-motd.bu=one", "worker/20-other.bu=one", "master/10-motd.bu=one",
				strings.ReplaceAll(linked, "target", "user: {name: core}\n      target"))
			w.Create(controllertest.ManualConfig("99-mine", "worker",
				`{"ignition":{"version":"3.2.0"},"storage":{"links":[{"path":"/etc/localtime","target":"/x"}]}}`))
			w.renderPool("worker")
			controllertest.Contains(t, "the event", w.LastEvent(), "Normal RenderNotice: several MachineConfigs set "+
				"the same thing", "same-link: link /etc/localtime: target: 99-mine wins over 20-worker-link")
		},
		"a MachineConfig that cannot be read is named, and the old config stays": func(t *testing.T, w *world,
			_ string,
		) {
			before := w.renderPool("worker")
			w.Create(controllertest.ManualConfig("99-bad", "worker", `{"ignition":{"version":"9.9.9"}}`))
			_, err := w.render.Reconcile(t.Context(), controllertest.Request("worker"))
			if err != nil {
				t.Errorf("it is tried again and again, though only a person can help: %v", err)
			}
			controllertest.Equal(t, "the name", w.Pool("worker").Spec.Configuration.Name, before)
			controllertest.Contains(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "True|", "99-bad")
			w.Remove(w.Config("99-bad"))
			controllertest.Equal(t, "the name", w.renderPool("worker"), before)
			controllertest.Equal(t, "RenderDegraded", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolRenderDegraded), "False|")
		},
		"a rendered config that was edited by hand is put back": func(t *testing.T, w *world, _ string) {
			name := w.renderPool("worker")
			controllertest.Modify(w.Cluster, w.Config(name), func(mc *mcfgv1.MachineConfig) {
				mc.Spec.KernelArguments = []string{"quiet"}
			})
			w.renderPool("worker")
			controllertest.Equal(t, "kernel arguments", len(w.Config(name).Spec.KernelArguments), 0)
		},
		"a rendered config that was deleted by hand is made again": func(t *testing.T, w *world, _ string) {
			name := w.renderPool("worker")
			w.Remove(w.Config(name))
			controllertest.Equal(t, "the name", w.renderPool("worker"), name)
			controllertest.Contains(t, "its content", string(w.Config(name).Spec.Config.Raw), "data:,one")
		},
		"a pool that is gone is no error": func(t *testing.T, w *world, _ string) {
			if _, err := w.render.Reconcile(t.Context(), controllertest.Request("gone")); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			first := w.repo.Push("begin", controllertest.Files("worker/10-motd.bu=one", "master/10-motd.bu=one"))
			w.follow()
			story(t, w, first)
		})
	}
}

func keys(m map[string]*mcfgv1.MachineConfig) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

// handMade is the Ignition config of a MachineConfig that a user makes through the API.
const handMade = `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/hand","contents":{"source":"data:,x"}}]}}`
