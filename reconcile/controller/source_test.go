package controller_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const broken = `-- pools/worker/10-motd.bu --
variant: fcos
version: 1.6.0
storage:
  files:
    - path: /etc/motd
      mode: "wrong"
`

// TestFollowing is what a GitSource promises, a sentence each.
func TestFollowing(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *world){
		"the first commit applies its fragments, owned and marked, and records them last": func(t *testing.T, w *world) {
			revision := w.repo.push("say hello", files("worker/10-motd.bu=hello", "master/20-issue.bu=hi"))
			w.follow()
			equal(t, "what is there", w.names(), "10-worker-motd 20-master-issue")
			mc := w.config("10-worker-motd")
			equal(t, "its source", mc.Labels[v1alpha1.SourceLabel], "os")
			equal(t, "its role", mc.Labels[v1alpha1.RoleLabel], "worker")
			has(t, "its content", string(mc.Spec.Config.Raw), `"/etc/10-motd"`, "data:,hello")
			has(t, "its files", mc.Annotations[v1alpha1.FileAnnotation], `"file":"pools/worker/10-motd.bu"`, `"blob":"`)
			s := w.gitSource().Status
			equal(t, "the revision applied", s.AppliedRevision, revision)
			equal(t, "the inventory", fmt.Sprintf("%d %s %t", len(s.Inventory), s.Inventory[0].Name, s.Inventory[0].Digest == mc.Annotations[v1alpha1.DigestAnnotation]), "2 10-worker-motd true")
			equal(t, "the writes to the GitSource and their neighbours", w.order(), "keep content, record what is applied, apply, apply, record the inventory, drop content")
			equal(t, "Ready", w.condition("Ready"), "True|Succeeded|applied revision "+revision)
			has(t, "the event", w.lastEvent(), "Normal NewRevision: applied main@sha1:", `"say hello" by Ada`)
		},
		"a mark of secret paths on a document is on the MachineConfig, follows the commits, and goes": func(t *testing.T, w *world) {
			document := func(metadata string) string {
				return "-- pools/worker/20-b.yaml --\napiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: 20-worker-b\n  labels: {machineconfiguration.openshift.io/role: worker}\n" + metadata + "spec: {kernelArguments: [quiet]}\n"
			}
			for _, mark := range []string{"/etc/a", "/etc/b,c.service", ""} {
				metadata := ""
				if mark != "" {
					metadata = "  annotations: {review.bunsen.dev/secret-paths: \"" + mark + "\"}\n"
				}
				revision := w.repo.push("mark "+mark, document(metadata))
				w.tick()
				w.follow()
				equal(t, "the revision applied", w.gitSource().Status.AppliedRevision, revision)
				equal(t, "the mark", w.config("20-worker-b").Annotations[v1alpha1.SecretPathsAnnotation], mark)
			}
		},
		"a commit that touches only a README rewrites no object": func(t *testing.T, w *world) {
			tree := files("worker/10-motd.bu=hello")
			w.repo.push("say hello", tree)
			w.follow()
			before := w.versions()
			revision := w.repo.push("explain", tree+"-- README.md --\nHello.\n")
			w.tick()
			w.follow()
			equal(t, "the revision applied", w.gitSource().Status.AppliedRevision, revision)
			if diff := gocmp.Diff(before, w.versions()); diff != "" {
				t.Errorf("objects were written:\n%s", diff)
			}
		},
		"a broken commit changes nothing, is named with file, line and column, and the next good one goes through": func(t *testing.T, w *world) {
			good := w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			before, inventory := w.versions(), w.gitSource().Status.Inventory
			bad := w.repo.push("oops", broken)
			w.tick()
			w.follow()
			if diff := gocmp.Diff(before, w.versions()); diff != "" {
				t.Errorf("objects were written:\n%s", diff)
			}
			s := w.gitSource().Status
			equal(t, "the revision seen", s.ObservedRevision, bad)
			equal(t, "the revision applied", s.AppliedRevision, good)
			if diff := gocmp.Diff(inventory, s.Inventory); diff != "" {
				t.Errorf("the inventory moved:\n%s", diff)
			}
			has(t, "Ready", w.condition("Ready"), "False|TranspileFailed|pools/worker/10-motd.bu:6:")
			has(t, "Stalled", w.condition("Stalled"), "True|TranspileFailed|")
			has(t, "the event", w.lastEvent(), "Warning TranspileFailed: pools/worker/10-motd.bu:6:")
			w.repo.push("better", files("worker/10-motd.bu=hello again"))
			w.tick()
			w.follow()
			has(t, "Ready", w.condition("Ready"), "True|Succeeded")
			equal(t, "Stalled", w.condition("Stalled"), "absent")
			has(t, "the content", string(w.config("10-worker-motd").Spec.Config.Raw), "hello%20again")
		},
		"a fragment that was edited by hand is put back": func(t *testing.T, w *world) {
			w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			change(w, w.config("10-worker-motd"), func(mc *mcfgv1.MachineConfig) { mc.Spec.KernelArguments = []string{"quiet"} })
			w.follow()
			equal(t, "kernel arguments", len(w.config("10-worker-motd").Spec.KernelArguments), 0)
			equal(t, "ref listings", w.repo.lists, 1)
		},
		"a fragment whose role was changed by hand is put back": func(t *testing.T, w *world) {
			w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			change(w, w.config("10-worker-motd"), func(mc *mcfgv1.MachineConfig) { mc.Labels[v1alpha1.RoleLabel] = "master" })
			w.follow()
			equal(t, "the role", w.config("10-worker-motd").Labels[v1alpha1.RoleLabel], "worker")
		},
		"a fragment that was deleted by hand is put back": func(t *testing.T, w *world) {
			w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			w.remove(w.config("10-worker-motd"))
			w.follow()
			equal(t, "what is there", w.names(), "10-worker-motd")
		},
		"a fragment is put back even while the newest commit is broken": func(t *testing.T, w *world) {
			w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			w.repo.push("oops", broken)
			w.tick()
			w.follow()
			w.remove(w.config("10-worker-motd"))
			w.follow()
			equal(t, "what is there", w.names(), "10-worker-motd")
			has(t, "Ready", w.condition("Ready"), "False|TranspileFailed|pools/worker/10-motd.bu:6:")
		},
		"what the API server refuses is named, renders nothing, and does not take turns with what was there": func(t *testing.T, w *world) {
			w.repo.push("one", files("worker/10-motd.bu=one", "worker/20-issue.bu=one"))
			w.follow()
			before := w.renderPool("worker")
			w.refuse = "20-worker-issue"
			w.repo.push("two", files("worker/10-motd.bu=two", "worker/20-issue.bu=two"))
			w.tick()
			w.follow()
			has(t, "Stalled", w.condition("Stalled"), "True|ApplyFailed|pools/worker/20-issue.bu: applying MachineConfig", "20-worker-issue")
			version := w.config("10-worker-motd").ResourceVersion
			for range 5 {
				w.follow()
				equal(t, "the rendered config", w.renderPool("worker"), before)
			}
			equal(t, "the version of the other fragment", w.config("10-worker-motd").ResourceVersion, version)
		},
		"a document that is gone from the repository is pruned, and what others made stays": func(t *testing.T, w *world) {
			w.create(byHand("99-worker-mine", "worker", "{}"))
			w.repo.push("two", files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.follow()
			w.repo.push("one", files("worker/10-motd.bu=hello"))
			w.tick()
			w.follow()
			equal(t, "what is there", w.names(), "10-worker-motd 99-worker-mine")
		},
		"without pruning a document that is gone stays, and its pool goes on rendering": func(t *testing.T, w *world) {
			change(w, w.gitSource(), func(s *v1alpha1.GitSource) { s.Spec.Prune = new(bool) })
			w.repo.push("two", files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.follow()
			before := w.renderPool("worker")
			w.repo.push("one", files("worker/10-motd.bu=hello again"))
			w.tick()
			w.follow()
			equal(t, "what is there", w.names(), "10-worker-motd 20-worker-issue")
			if after := w.renderPool("worker"); after == before {
				t.Errorf("pool worker is still at %s: the document that stays holds it up", after)
			}
		},
		"a MachineConfig of that name that belongs to nobody is refused, with the file": func(t *testing.T, w *world) {
			w.create(byHand("10-worker-motd", "worker", "{}"))
			w.repo.push("say hello", files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.follow()
			equal(t, "what is there", w.names(), "10-worker-motd")
			equal(t, "its content", string(w.config("10-worker-motd").Spec.Config.Raw), "{}")
			has(t, "Stalled", w.condition("Stalled"), "True|OwnershipConflict|pools/worker/10-motd.bu: ", `"10-worker-motd"`, "rename the file or delete that object", "\nin main@sha1:", "; nothing of it is applied")
		},
		"a pool directory without a pool is refused, with the way out": func(t *testing.T, w *world) {
			w.repo.push("gpu", files("gpu/10-motd.bu=hello", "worker/10-motd.bu=hello"))
			w.follow()
			equal(t, "what is there", w.names(), "")
			has(t, "Stalled", w.condition("Stalled"), "True|PoolMissing|pools/gpu: ", "add cluster/gpu.yaml", "rename the directory", "\nin main@sha1:", "; nothing of it is applied")
			w.create(pool("gpu"))
			w.follow()
			equal(t, "once the pool is there", w.names(), "10-gpu-motd 10-worker-motd")
			has(t, "Ready", w.condition("Ready"), "True|")
		},
		"a suspended source is left alone, and what is applied stays": func(t *testing.T, w *world) {
			w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			change(w, w.gitSource(), func(s *v1alpha1.GitSource) { s.Spec.Suspend = true })
			w.repo.push("more", files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.tick()
			equal(t, "when to look again", w.follow().RequeueAfter, 0)
			equal(t, "ref listings", w.repo.lists, 1)
			equal(t, "what is there", w.names(), "10-worker-motd")
			has(t, "Ready", w.condition("Ready"), "True|Suspended|suspended; revision main@sha1:")
		},
		"the reconcile annotation makes it list at once, and is echoed": func(t *testing.T, w *world) {
			w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			w.repo.push("more", files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.follow()
			equal(t, "ref listings within the interval", w.repo.lists, 1)
			src := w.gitSource()
			metav1.SetMetaDataAnnotation(&src.ObjectMeta, v1alpha1.ReconcileAnnotation, "now")
			if err := w.admin.Update(t.Context(), src); err != nil {
				t.Fatal(err)
			}
			w.follow()
			w.follow()
			equal(t, "ref listings after it", w.repo.lists, 2)
			equal(t, "the echo", w.gitSource().Status.LastHandledReconcileAt, "now")
			equal(t, "what is there", w.names(), "10-worker-motd 20-worker-issue")
		},
		"a change of the spec makes it list at once": func(t *testing.T, w *world) {
			w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			change(w, w.gitSource(), func(s *v1alpha1.GitSource) { s.Spec.Ref.Branch = "main" })
			w.follow()
			equal(t, "ref listings", w.repo.lists, 2)
			equal(t, "the generation applied", w.gitSource().Status.AppliedGeneration, w.gitSource().Generation)
		},
		"an unreachable repository keeps the last state and will be tried again": func(t *testing.T, w *world) {
			revision := w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			before := w.versions()
			w.repo.down = fault.NewRetry(v1alpha1.ReasonUnreachable, errors.New("listing refs: no route to host"))
			w.tick()
			w.follow()
			has(t, "Ready", w.condition("Ready"), "False|RepositoryUnreachable|listing refs: no route to host")
			has(t, "Reconciling", w.condition("Reconciling"), "True|RepositoryUnreachable")
			equal(t, "the revision applied", w.gitSource().Status.AppliedRevision, revision)
			if diff := gocmp.Diff(before, w.versions()); diff != "" {
				t.Errorf("objects were written:\n%s", diff)
			}
			w.repo.down = nil
			w.tick()
			w.follow()
			has(t, "Ready", w.condition("Ready"), "True|Succeeded")
		},
		"a Secret that is missing is named": func(t *testing.T, w *world) {
			change(w, w.gitSource(), func(s *v1alpha1.GitSource) { s.Spec.SecretRef = &v1alpha1.SecretReference{Name: "deploy-key"} })
			w.repo.push("say hello", files("worker/10-motd.bu=hello"))
			w.follow()
			has(t, "Ready", w.condition("Ready"), "False|AuthenticationFailed|reading Secret bunsen-system/deploy-key: ")
			equal(t, "ref listings", w.repo.lists, 0)
		},
		"warnings of a revision stay in the condition while nothing new happens": func(t *testing.T, w *world) {
			w.repo.push("a stray file", files("worker/10-motd.bu=hello", "-- pools/README --\nHi.\n"))
			w.follow()
			w.follow()
			has(t, "Ready", w.condition("Ready"), "True|Succeeded|applied revision main@sha1:", "; pools/README: warning:")
		},
		"history says what each pool got from a revision, reverts included": func(t *testing.T, w *world) {
			one, two := files("worker/10-motd.bu=one"), files("worker/10-motd.bu=two")
			var names []string
			for _, tree := range []string{one, two, one} {
				w.repo.push("next", tree)
				w.tick()
				w.follow()
				names = append(names, w.renderPool("worker"))
				w.follow()
			}
			var got []string
			for _, h := range w.gitSource().Status.History {
				got = append(got, h.Pools["worker"])
			}
			equal(t, "history", strings.Join(got, " "), names[2]+" "+names[1]+" "+names[0])
			equal(t, "the name after the revert", names[2], names[0])
		},
	} {
		t.Run(sentence, func(t *testing.T) { story(t, newWorld(t)) })
	}
}

// tick lets the interval pass.
func (w *world) tick() { w.now = w.now.Add(2 * time.Minute) }

// TestPolling counts ref listings: one an interval while nothing is new, whatever happens on the cluster in between.
func TestPolling(t *testing.T) {
	w := newWorld(t)
	w.repo.push("say hello", files("worker/10-motd.bu=hello"))
	due := w.now.Add(w.follow().RequeueAfter)
	for interval := 1; interval <= 5; interval++ {
		for range 10 { // events of pools and fragments
			result := w.follow()
			if got := w.now.Add(result.RequeueAfter); got.After(due.Add(time.Second)) || got.Before(w.now.Add(time.Second)) {
				t.Fatalf("interval %d: the next look is at %s, want by %s", interval, got, due)
			}
			w.now = w.now.Add(time.Second)
		}
		equal(t, "ref listings", w.repo.lists, interval)
		w.now = due
		due = w.now.Add(w.follow().RequeueAfter)
	}
	equal(t, "trees fetched", w.repo.fetches, 1)
	if spread := w.follow().RequeueAfter - time.Minute; spread < 0 || spread > 6*time.Second {
		t.Errorf("the interval of a minute is spread by %s, want 0 to 6s", spread)
	}
}

// TestPollingARemoteThatIsDown is patient: soon at first, ever slower, at most once an interval; events of the cluster
// do not count.
func TestPollingARemoteThatIsDown(t *testing.T) {
	w := newWorld(t)
	w.repo.push("say hello", files("worker/10-motd.bu=hello"))
	change(w, w.gitSource(), func(s *v1alpha1.GitSource) { s.Spec.Interval.Duration = 10 * time.Minute })
	w.follow()
	w.now = w.now.Add(11 * time.Minute)
	w.repo.down = fault.NewRetry(v1alpha1.ReasonUnreachable, errors.New("no route to host"))
	w.repo.lists = 0
	first := w.follow().RequeueAfter
	if first > 6*time.Second { // spread by a tenth of the pause, not of the interval
		t.Errorf("the first new attempt comes after %s, want soon", first)
	}
	due := w.now.Add(first)
	for range 20 { // a rollout is under way, and pools change all the time
		w.follow()
	}
	equal(t, "ref listings by events alone", w.repo.lists, 1)
	end := w.now.Add(3 * time.Hour)
	for w.now = due; w.now.Before(end); {
		w.now = w.now.Add(w.follow().RequeueAfter)
	}
	if w.repo.lists > 30 {
		t.Errorf("%d ref listings in 3 hours of an outage at an interval of 10 minutes", w.repo.lists)
	}
	w.repo.down = nil
	w.follow()
	has(t, "Ready", w.condition("Ready"), "True|Succeeded")
}

const clusterFiles = `-- cluster/infra.yaml --
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfigPool
metadata:
  name: infra
spec:
  machineConfigSelector:
    matchExpressions:
      - {key: machineconfiguration.openshift.io/role, operator: In, values: [worker, infra]}
  nodeSelector:
    matchLabels: {node-role.kubernetes.io/infra: ""}
  maxUnavailable: 2
-- cluster/policy.yaml --
apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata:
  name: cluster
spec:
  nodeDisruptionPolicy:
    files:
      - path: /etc/motd
        actions: [{type: None}]
`

// TestClusterObjects are the pools and the policy that a repository brings.
func TestClusterObjects(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *world){
		"they are applied before the fragments, and belong to the source": func(t *testing.T, w *world) {
			equal(t, "the owner", w.pool("infra").Labels[v1alpha1.SourceLabel], "os")
			equal(t, "maxUnavailable", w.pool("infra").Spec.MaxUnavailable.IntValue(), 2)
			policy := get(w, "cluster", &operatorv1.MachineConfiguration{})
			equal(t, "files with a rule", len(policy.Spec.NodeDisruptionPolicy.Files), 1)
			equal(t, "entries in the inventory", len(w.gitSource().Status.Inventory), 3)
		},
		"what others write to a pool stays": func(t *testing.T, w *world) {
			name := w.renderPool("infra")
			w.repo.push("three at a time", files("worker/10-motd.bu=hello", strings.Replace(clusterFiles, "maxUnavailable: 2", "maxUnavailable: 3", 1)))
			w.tick()
			w.follow()
			p := w.pool("infra")
			equal(t, "maxUnavailable", p.Spec.MaxUnavailable.IntValue(), 3)
			equal(t, "the rendered config", p.Spec.Configuration.Name, name)
		},
		"a pool that was deleted by hand is put back": func(t *testing.T, w *world) {
			w.remove(w.pool("infra"))
			w.follow()
			equal(t, "the owner", w.pool("infra").Labels[v1alpha1.SourceLabel], "os")
		},
		"a field that was edited by hand is put back": func(t *testing.T, w *world) {
			change(w, w.pool("infra"), func(p *mcfgv1.MachineConfigPool) { p.Spec.MaxUnavailable.IntVal = 50 })
			w.follow()
			equal(t, "maxUnavailable", w.pool("infra").Spec.MaxUnavailable.IntValue(), 2)
		},
		"a custom pool that is gone from the repository is deleted; of the policy only our rules go": func(t *testing.T, w *world) {
			w.repo.push("no cluster", files("worker/10-motd.bu=hello"))
			w.tick()
			w.follow()
			var pools mcfgv1.MachineConfigPoolList
			if err := w.admin.List(t.Context(), &pools); err != nil {
				t.Fatal(err)
			}
			equal(t, "pools", len(pools.Items), 2)
			policy := get(w, "cluster", &operatorv1.MachineConfiguration{})
			equal(t, "files with a rule", len(policy.Spec.NodeDisruptionPolicy.Files), 0)
			equal(t, "the owner", policy.Labels[v1alpha1.SourceLabel], "")
			has(t, "Ready", w.condition("Ready"), "True|Succeeded")
		},
		"a pool of another source is refused, with the line": func(t *testing.T, w *world) {
			change(w, w.pool("infra"), func(p *mcfgv1.MachineConfigPool) { p.Labels[v1alpha1.SourceLabel] = "other" })
			w.follow()
			has(t, "Stalled", w.condition("Stalled"), "True|OwnershipConflict|cluster/infra.yaml:1: ", `belongs to GitSource "other"`)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.repo.push("begin", files("worker/10-motd.bu=hello", clusterFiles))
			w.follow()
			has(t, "Ready", w.condition("Ready"), "True|Succeeded")
			story(t, w)
		})
	}
}

// TestADeletedSource: a GitSource that is gone is no error, and costs no listing.
func TestADeletedSource(t *testing.T) {
	w := newWorld(t)
	w.repo.push("say hello", files("worker/10-motd.bu=hello"))
	w.follow()
	w.remove(w.gitSource())
	equal(t, "when to look again", w.follow().RequeueAfter, 0)
	equal(t, "ref listings", w.repo.lists, 1)
}
