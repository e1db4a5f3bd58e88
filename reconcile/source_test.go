package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
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
		"the first commit applies its fragments, owned and marked, and records them last": func(t *testing.T,
			w *world,
		) {
			revision := w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello",
				"master/20-issue.bu=hi"))
			w.follow()
			controllertest.Equal(t, "what is there", w.Names(), "10-worker-motd 20-master-issue")
			mc := w.Config("10-worker-motd")
			controllertest.Equal(t, "its source", mc.Labels[v1alpha1.SourceLabel], "os")
			controllertest.Equal(t, "its role", mc.Labels[v1alpha1.RoleLabel], "worker")
			controllertest.Contains(t, "its content", string(mc.Spec.Config.Raw), `"/etc/10-motd"`, "data:,hello")
			controllertest.Contains(t, "its files", mc.Annotations[v1alpha1.FileAnnotation],
				`"file":"pools/worker/10-motd.bu"`, `"blob":"`)
			s := w.GitSource().Status
			controllertest.Equal(t, "the revision applied", s.AppliedRevision, revision)
			controllertest.Equal(t, "the inventory", fmt.Sprintf("%d %s %t", len(s.Inventory), s.Inventory[0].Name,
				s.Inventory[0].Digest == mc.Annotations[v1alpha1.DigestAnnotation]), "2 10-worker-motd true")
			controllertest.Equal(t, "the writes to the GitSource and their neighbours", w.Order(),
				"keep content, record what is applied, apply, apply, record the inventory, drop content")
			controllertest.Equal(t, "Ready", w.Condition("Ready"), "True|Succeeded|applied revision "+revision)
			controllertest.Contains(t, "the event", w.LastEvent(), "Normal NewRevision: applied main@sha1:",
				`"say hello" by Ada`)
		},
		"a mark of secret paths on a document is on the MachineConfig, follows the commits, and goes": func(
			t *testing.T, w *world,
		) {
			document := func(metadata string) string {
				return "-- pools/worker/20-b.yaml --\napiVersion: machineconfiguration.openshift.io/v1\n" +
					"kind: MachineConfig\nmetadata:\n  name: 20-worker-b\n" +
					"  labels: {machineconfiguration.openshift.io/role: worker}\n" + metadata +
					"spec: {kernelArguments: [quiet]}\n"
			}
			for _, mark := range []string{"/etc/a", "/etc/b,c.service", ""} {
				metadata := ""
				if mark != "" {
					metadata = "  annotations: {review.bunsen.dev/secret-paths: \"" + mark + "\"}\n"
				}
				revision := w.repo.Push("mark "+mark, document(metadata))
				w.tick()
				w.follow()
				controllertest.Equal(t, "the revision applied", w.GitSource().Status.AppliedRevision, revision)
				controllertest.Equal(t, "the mark", w.Config("20-worker-b").Annotations[v1alpha1.SecretPathsAnnotation],
					mark)
			}
		},
		"a commit that touches only a README rewrites no object": func(t *testing.T, w *world) {
			tree := controllertest.Files("worker/10-motd.bu=hello")
			w.repo.Push("say hello", tree)
			w.follow()
			before := w.Versions()
			revision := w.repo.Push("explain", tree+"-- README.md --\nHello.\n")
			w.tick()
			w.follow()
			controllertest.Equal(t, "the revision applied", w.GitSource().Status.AppliedRevision, revision)
			if diff := gocmp.Diff(before, w.Versions()); diff != "" {
				t.Errorf("objects were written:\n%s", diff)
			}
		},
		"a broken commit changes nothing, is named with its place, and the next good one goes through": func(
			t *testing.T, w *world,
		) {
			good := w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			before, inventory := w.Versions(), w.GitSource().Status.Inventory
			bad := w.repo.Push("oops", broken)
			w.tick()
			w.follow()
			if diff := gocmp.Diff(before, w.Versions()); diff != "" {
				t.Errorf("objects were written:\n%s", diff)
			}
			s := w.GitSource().Status
			controllertest.Equal(t, "the revision seen", s.ObservedRevision, bad)
			controllertest.Equal(t, "the revision applied", s.AppliedRevision, good)
			if diff := gocmp.Diff(inventory, s.Inventory); diff != "" {
				t.Errorf("the inventory moved:\n%s", diff)
			}
			controllertest.Contains(t, "Ready", w.Condition("Ready"),
				"False|TranspileFailed|pools/worker/10-motd.bu:6:")
			controllertest.Contains(t, "Stalled", w.Condition("Stalled"), "True|TranspileFailed|")
			controllertest.Contains(t, "the event", w.LastEvent(),
				"Warning TranspileFailed: pools/worker/10-motd.bu:6:")
			w.repo.Push("better", controllertest.Files("worker/10-motd.bu=hello again"))
			w.tick()
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
			controllertest.Equal(t, "Stalled", w.Condition("Stalled"), "absent")
			controllertest.Contains(t, "the content", string(w.Config("10-worker-motd").Spec.Config.Raw),
				"hello%20again")
		},
		"a fragment that was edited by hand is put back": func(t *testing.T, w *world) {
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			controllertest.Modify(w.Cluster, w.Config("10-worker-motd"), func(mc *mcfgv1.MachineConfig) {
				mc.Spec.KernelArguments = []string{"quiet"}
			})
			w.follow()
			controllertest.Equal(t, "kernel arguments", len(w.Config("10-worker-motd").Spec.KernelArguments), 0)
			controllertest.Equal(t, "ref listings", w.repo.Lists, 1)
		},
		"a fragment whose role was changed by hand is put back": func(t *testing.T, w *world) {
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			controllertest.Modify(w.Cluster, w.Config("10-worker-motd"), func(mc *mcfgv1.MachineConfig) {
				mc.Labels[v1alpha1.RoleLabel] = "master"
			})
			w.follow()
			controllertest.Equal(t, "the role", w.Config("10-worker-motd").Labels[v1alpha1.RoleLabel], "worker")
		},
		"a fragment that was deleted by hand is put back": func(t *testing.T, w *world) {
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			w.Remove(w.Config("10-worker-motd"))
			w.follow()
			controllertest.Equal(t, "what is there", w.Names(), "10-worker-motd")
		},
		"a fragment is put back even while the newest commit is broken": func(t *testing.T, w *world) {
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			w.repo.Push("oops", broken)
			w.tick()
			w.follow()
			w.Remove(w.Config("10-worker-motd"))
			w.follow()
			controllertest.Equal(t, "what is there", w.Names(), "10-worker-motd")
			controllertest.Contains(t, "Ready", w.Condition("Ready"),
				"False|TranspileFailed|pools/worker/10-motd.bu:6:")
		},
		"what the API server refuses is named, renders nothing, and does not take turns with what was there": func(
			t *testing.T, w *world,
		) {
			w.repo.Push("one", controllertest.Files("worker/10-motd.bu=one", "worker/20-issue.bu=one"))
			w.follow()
			before := w.renderPool("worker")
			w.Refuse = "20-worker-issue"
			w.repo.Push("two", controllertest.Files("worker/10-motd.bu=two", "worker/20-issue.bu=two"))
			w.tick()
			w.follow()
			controllertest.Contains(t, "Stalled", w.Condition("Stalled"),
				"True|ApplyFailed|pools/worker/20-issue.bu: applying MachineConfig", "20-worker-issue")
			version := w.Config("10-worker-motd").ResourceVersion
			for range 5 {
				w.follow()
				controllertest.Equal(t, "the rendered config", w.renderPool("worker"), before)
			}
			controllertest.Equal(t, "the version of the other fragment", w.Config("10-worker-motd").ResourceVersion,
				version)
		},
		"a document that is gone from the repository is pruned, and what others made stays": func(t *testing.T,
			w *world,
		) {
			w.Create(controllertest.ManualConfig("99-worker-mine", "worker", "{}"))
			w.repo.Push("two", controllertest.Files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.follow()
			w.repo.Push("one", controllertest.Files("worker/10-motd.bu=hello"))
			w.tick()
			w.follow()
			controllertest.Equal(t, "what is there", w.Names(), "10-worker-motd 99-worker-mine")
		},
		"without pruning a document that is gone stays, and its pool goes on rendering": func(t *testing.T, w *world) {
			controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) { s.Spec.Prune = new(bool) })
			w.repo.Push("two", controllertest.Files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.follow()
			before := w.renderPool("worker")
			w.repo.Push("one", controllertest.Files("worker/10-motd.bu=hello again"))
			w.tick()
			w.follow()
			controllertest.Equal(t, "what is there", w.Names(), "10-worker-motd 20-worker-issue")
			if after := w.renderPool("worker"); after == before {
				t.Errorf("pool worker is still at %s: the document that stays holds it up", after)
			}
		},
		"a MachineConfig of that name that belongs to nobody is refused, with the file": func(t *testing.T, w *world) {
			w.Create(controllertest.ManualConfig("10-worker-motd", "worker", "{}"))
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.follow()
			controllertest.Equal(t, "what is there", w.Names(), "10-worker-motd")
			controllertest.Equal(t, "its content", string(w.Config("10-worker-motd").Spec.Config.Raw), "{}")
			controllertest.Contains(t, "Stalled", w.Condition("Stalled"),
				"True|OwnershipConflict|pools/worker/10-motd.bu: ", `"10-worker-motd"`,
				"rename the file or delete that object", "\nin main@sha1:", "; nothing of it is applied")
		},
		"a pool directory without a pool is refused, with the way out": func(t *testing.T, w *world) {
			w.repo.Push("gpu", controllertest.Files("gpu/10-motd.bu=hello", "worker/10-motd.bu=hello"))
			w.follow()
			controllertest.Equal(t, "what is there", w.Names(), "")
			controllertest.Contains(t, "Stalled", w.Condition("Stalled"), "True|PoolMissing|pools/gpu: ",
				"add cluster/gpu.yaml", "rename the directory", "\nin main@sha1:", "; nothing of it is applied")
			w.Create(controllertest.Pool("gpu"))
			w.follow()
			controllertest.Equal(t, "once the pool is there", w.Names(), "10-gpu-motd 10-worker-motd")
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|")
		},
		"a source that is suspended until a time is followed again then": func(t *testing.T, w *world) {
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			until := metav1.NewTime(w.Now.Add(time.Hour))
			controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
				s.Generation, s.Spec.Suspend, s.Spec.SuspendUntil = 2, true, &until
			})
			w.repo.Push("say more", controllertest.Files("worker/10-motd.bu=hello again"))
			w.tick()
			controllertest.Equal(t, "the next look", w.follow().RequeueAfter, until.Sub(w.Now))
			controllertest.Equal(t, "listings", w.repo.Lists, 1)
			controllertest.Contains(t, "Ready", w.Condition("Ready"),
				"True|Suspended|suspended until 2026-01-02T13:00:00Z; revision main@sha1:")
			w.Now = until.Time
			w.follow()
			controllertest.Equal(t, "applied", w.GitSource().Status.AppliedRevision, w.repo.Revision())
		},
		"a suspended source is left alone, and what is applied stays": func(t *testing.T, w *world) {
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) { s.Spec.Suspend = true })
			w.repo.Push("more", controllertest.Files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.tick()
			controllertest.Equal(t, "when to look again", w.follow().RequeueAfter, 0)
			controllertest.Equal(t, "ref listings", w.repo.Lists, 1)
			controllertest.Equal(t, "what is there", w.Names(), "10-worker-motd")
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Suspended|suspended; revision main@sha1:")
		},
		"the reconcile annotation makes it list at once, and is echoed": func(t *testing.T, w *world) {
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			w.repo.Push("more", controllertest.Files("worker/10-motd.bu=hello", "worker/20-issue.bu=hi"))
			w.follow()
			controllertest.Equal(t, "ref listings within the interval", w.repo.Lists, 1)
			src := w.GitSource()
			metav1.SetMetaDataAnnotation(&src.ObjectMeta, v1alpha1.ReconcileAnnotation, "now")
			if err := w.Admin.Update(t.Context(), src); err != nil {
				t.Fatal(err)
			}
			w.follow()
			w.follow()
			controllertest.Equal(t, "ref listings after it", w.repo.Lists, 2)
			controllertest.Equal(t, "the echo", w.GitSource().Status.LastHandledReconcileAt, "now")
			controllertest.Equal(t, "what is there", w.Names(), "10-worker-motd 20-worker-issue")
		},
		"a change of the spec makes it list at once": func(t *testing.T, w *world) {
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) { s.Spec.Ref.Branch = "main" })
			w.follow()
			controllertest.Equal(t, "ref listings", w.repo.Lists, 2)
			controllertest.Equal(t, "the generation applied", w.GitSource().Status.AppliedGeneration,
				w.GitSource().Generation)
		},
		"an unreachable repository keeps the last state and the controller will try again": func(t *testing.T,
			w *world,
		) {
			revision := w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			w.follow()
			before := w.Versions()
			w.repo.Down = fault.NewRetry(v1alpha1.ReasonUnreachable, errors.New("listing refs: no route to host"))
			w.tick()
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "False|RepositoryUnreachable|listing refs: no "+
				"route to host")
			controllertest.Contains(t, "Reconciling", w.Condition("Reconciling"), "True|RepositoryUnreachable")
			controllertest.Equal(t, "the revision applied", w.GitSource().Status.AppliedRevision, revision)
			if diff := gocmp.Diff(before, w.Versions()); diff != "" {
				t.Errorf("objects were written:\n%s", diff)
			}
			w.repo.Down = nil
			w.tick()
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
		},
		"a Secret that is missing is named": func(t *testing.T, w *world) {
			controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
				s.Spec.SecretRef = &v1alpha1.SecretReference{Name: "deploy-key"}
			})
			w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
			if next := w.follow().RequeueAfter; next > 20*time.Second {
				t.Errorf("nothing tells that the Secret was created, and the next look is in %s", next)
			}
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "False|AuthenticationFailed|there is no "+
				"Secret bunsen-system/deploy-key")
			controllertest.Contains(t, "Stalled: a user has to create it", w.Condition("Stalled"), "True|AuthenticationFailed")
			controllertest.Equal(t, "ref listings", w.repo.Lists, 0)
		},
		"warnings of a revision stay in the condition while nothing new happens": func(t *testing.T, w *world) {
			w.repo.Push("a stray file", controllertest.Files("worker/10-motd.bu=hello", "-- pools/README --\nHi.\n"))
			w.follow()
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded|applied revision main@sha1:",
				"; pools/README: warning:")
		},
		"history says what each pool got from a revision, reverts included": func(t *testing.T, w *world) {
			one, two := controllertest.Files("worker/10-motd.bu=one"), controllertest.Files("worker/10-motd.bu=two")
			var names []string
			for _, tree := range []string{one, two, one} {
				w.repo.Push("next", tree)
				w.tick()
				w.follow()
				names = append(names, w.renderPool("worker"))
				w.follow()
			}
			var got []string
			for _, h := range w.GitSource().Status.History {
				got = append(got, h.Pools["worker"])
			}
			controllertest.Equal(t, "history", strings.Join(got, " "), names[2]+" "+names[1]+" "+names[0])
			controllertest.Equal(t, "the name after the revert", names[2], names[0])
		},
	} {
		t.Run(sentence, func(t *testing.T) { story(t, newWorld(t)) })
	}
}

// tick lets the interval pass.
func (w *world) tick() { w.Now = w.Now.Add(2 * time.Minute) }

// TestPolling counts ref listings: one an interval while nothing is new, whatever happens on the cluster in between.
func TestPolling(t *testing.T) {
	w := newWorld(t)
	w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
	due := w.Now.Add(w.follow().RequeueAfter)
	for interval := 1; interval <= 5; interval++ {
		for range 10 { // events of pools and fragments
			result := w.follow()
			if got := w.Now.Add(result.RequeueAfter); got.After(due.Add(time.Second)) ||
				got.Before(w.Now.Add(time.Second)) {
				t.Fatalf("interval %d: the next look is at %s, want by %s", interval, got, due)
			}
			w.Now = w.Now.Add(time.Second)
		}
		controllertest.Equal(t, "ref listings", w.repo.Lists, interval)
		w.Now = due
		due = w.Now.Add(w.follow().RequeueAfter)
	}
	controllertest.Equal(t, "trees fetched", w.repo.Fetches, 1)
	if spread := w.follow().RequeueAfter - time.Minute; spread < 0 || spread > 6*time.Second {
		t.Errorf("the interval of a minute is spread by %s, want 0 to 6s", spread)
	}
}

// TestALookThatNobodyWaitsForIsNoFailure: it ends with whoever asked, and says nothing about the repository.
func TestALookThatNobodyWaitsForIsNoFailure(t *testing.T) {
	w := newWorld(t)
	w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
	w.follow()
	w.Now = w.Now.Add(2 * time.Minute)
	w.repo.Push("say more", controllertest.Files("worker/10-motd.bu=HELLO"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w.repo.Down = context.Canceled
	_, _ = w.source.Reconcile(gone, controllertest.Request("os"))
	w.repo.Down = nil
	w.follow()
	controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
	controllertest.Equal(t, "the commit", w.GitSource().Status.AppliedCommit.Subject, "say more")
}

// TestPollingARemoteThatIsDown is patient: soon at first, ever slower, at most once an interval; events of the cluster
// do not count.
func TestPollingARemoteThatIsDown(t *testing.T) {
	w := newWorld(t)
	w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
	controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
		s.Spec.Interval.Duration = 10 * time.Minute
	})
	w.follow()
	w.Now = w.Now.Add(11 * time.Minute)
	w.repo.Down = fault.NewRetry(v1alpha1.ReasonUnreachable, errors.New("no route to host"))
	w.repo.Lists = 0
	first := w.follow().RequeueAfter
	if first > 6*time.Second { // spread by a tenth of the pause, not of the interval
		t.Errorf("the first new attempt comes after %s, want soon", first)
	}
	due := w.Now.Add(first)
	for range 20 { // a rollout is under way, and pools change all the time
		w.follow()
	}
	controllertest.Equal(t, "ref listings by events alone", w.repo.Lists, 1)
	end := w.Now.Add(3 * time.Hour)
	for w.Now = due; w.Now.Before(end); {
		w.Now = w.Now.Add(w.follow().RequeueAfter)
	}
	if w.repo.Lists > 30 {
		t.Errorf("%d ref listings in 3 hours of an outage at an interval of 10 minutes", w.repo.Lists)
	}
	w.repo.Down = nil
	w.follow()
	controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
}

// TestARemoteThatAsksToWait: its limit counts, also beyond the interval. A request of a user is not delayed.
func TestARemoteThatAsksToWait(t *testing.T) {
	w := newWorld(t)
	w.repo.Down = &fault.Error{
		Kind: fault.Retry, Reason: v1alpha1.ReasonUnreachable,
		Err: errors.New("429 Too Many Requests"), After: 30 * time.Minute,
	}
	wait := w.follow().RequeueAfter
	if wait < 30*time.Minute || wait > 33*time.Minute {
		t.Errorf("the next attempt comes after %s", wait)
	}
	for end := w.Now.Add(29 * time.Minute); w.Now.Before(end); w.Now = w.Now.Add(time.Minute) {
		w.follow()
	}
	controllertest.Equal(t, "ref listings", w.repo.Lists, 1)
	controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.ReconcileAnnotation, "now")
	})
	w.follow()
	controllertest.Equal(t, "ref listings after a request", w.repo.Lists, 2)
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
			controllertest.Equal(t, "the owner", w.Pool("infra").Labels[v1alpha1.SourceLabel], "os")
			controllertest.Equal(t, "maxUnavailable", w.Pool("infra").Spec.MaxUnavailable.IntValue(), 2)
			policy := controllertest.Get(w.Cluster, "cluster", &operatorv1.MachineConfiguration{})
			controllertest.Equal(t, "files with a rule", len(policy.Spec.NodeDisruptionPolicy.Files), 1)
			controllertest.Equal(t, "entries in the inventory", len(w.GitSource().Status.Inventory), 3)
		},
		"what others write to a pool stays": func(t *testing.T, w *world) {
			name := w.renderPool("infra")
			w.repo.Push("three at a time", controllertest.Files("worker/10-motd.bu=hello",
				strings.Replace(clusterFiles, "maxUnavailable: 2", "maxUnavailable: 3", 1)))
			w.tick()
			w.follow()
			p := w.Pool("infra")
			controllertest.Equal(t, "maxUnavailable", p.Spec.MaxUnavailable.IntValue(), 3)
			controllertest.Equal(t, "the rendered config", p.Spec.Configuration.Name, name)
		},
		"a pool that was deleted by hand is put back": func(t *testing.T, w *world) {
			w.Remove(w.Pool("infra"))
			w.follow()
			controllertest.Equal(t, "the owner", w.Pool("infra").Labels[v1alpha1.SourceLabel], "os")
		},
		"a field that was edited by hand is put back": func(t *testing.T, w *world) {
			controllertest.Modify(w.Cluster, w.Pool("infra"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.MaxUnavailable.IntVal = 50
			})
			w.follow()
			controllertest.Equal(t, "maxUnavailable", w.Pool("infra").Spec.MaxUnavailable.IntValue(), 2)
		},
		"a custom pool that is gone from the repository is deleted; of the policy only our rules go": func(t *testing.T,
			w *world,
		) {
			w.repo.Push("no cluster", controllertest.Files("worker/10-motd.bu=hello"))
			w.tick()
			w.follow()
			var pools mcfgv1.MachineConfigPoolList
			if err := w.Admin.List(t.Context(), &pools); err != nil {
				t.Fatal(err)
			}
			controllertest.Equal(t, "pools", len(pools.Items), 2)
			policy := controllertest.Get(w.Cluster, "cluster", &operatorv1.MachineConfiguration{})
			controllertest.Equal(t, "files with a rule", len(policy.Spec.NodeDisruptionPolicy.Files), 0)
			controllertest.Equal(t, "the owner", policy.Labels[v1alpha1.SourceLabel], "")
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
		},
		"a standard pool that was restored from a backup is released too": func(t *testing.T, w *world) {
			backup := &unstructured.Unstructured{}
			backup.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigPool"))
			backup.SetName("worker")
			backup.SetLabels(map[string]string{v1alpha1.SourceLabel: "os"})
			if err := w.Admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(backup),
				client.FieldOwner("kubectl"), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
			w.repo.Push("worker too", controllertest.Files("worker/10-motd.bu=hello", clusterFiles, workerPool))
			w.tick()
			w.follow()
			controllertest.Equal(t, "the owner", w.Pool("worker").Labels[v1alpha1.SourceLabel], "os")
			before := w.renderPool("worker")
			w.repo.Push("no worker", controllertest.Files("worker/10-motd.bu=HELLO", clusterFiles))
			w.tick()
			w.follow()
			controllertest.Equal(t, "the owner", w.Pool("worker").Labels[v1alpha1.SourceLabel], "")
			controllertest.Equal(t, "what it should be", w.Pool("worker").Annotations[v1alpha1.WantedAnnotation], "")
			if w.renderPool("worker") == before {
				t.Error("the pool is not rendered any more")
			}
		},
		"a commit takes over an object although the content of the revision before is lost": func(t *testing.T,
			w *world,
		) {
			if err := w.Admin.DeleteAllOf(t.Context(), &v1alpha1.RevisionContent{}); err != nil {
				t.Fatal(err)
			}
			w.repo.Push("worker too", controllertest.Files("worker/10-motd.bu=hello", clusterFiles, workerPool))
			w.tick()
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
			controllertest.Equal(t, "the owner", w.Pool("worker").Labels[v1alpha1.SourceLabel], "os")
		},
		"a source that is made again has the content of its revision for itself": func(t *testing.T, w *world) {
			again := w.GitSource()
			w.Remove(w.GitSource())
			again.UID, again.ResourceVersion, again.Status = "again", "", v1alpha1.GitSourceStatus{}
			w.Create(again)
			w.tick()
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
			var contents v1alpha1.RevisionContentList
			if err := w.Admin.List(t.Context(), &contents); err != nil || len(contents.Items) == 0 {
				t.Fatal(err, contents)
			}
			for _, c := range contents.Items {
				controllertest.Equal(t, "the owner of "+c.Name, c.OwnerReferences[0].UID, "again")
			}
		},
		"a pool of another source is refused, with the line": func(t *testing.T, w *world) {
			controllertest.Modify(w.Cluster, w.Pool("infra"), func(p *mcfgv1.MachineConfigPool) {
				p.Labels[v1alpha1.SourceLabel] = "other"
			})
			w.follow()
			controllertest.Contains(t, "Stalled", w.Condition("Stalled"),
				"True|OwnershipConflict|cluster/infra.yaml:1: ", `belongs to GitSource "other"`)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.repo.Push("begin", controllertest.Files("worker/10-motd.bu=hello", clusterFiles))
			w.follow()
			controllertest.Contains(t, "Ready", w.Condition("Ready"), "True|Succeeded")
			story(t, w)
		})
	}
}

// TestADeletedSource: a GitSource that is gone is no error, and costs no listing.
func TestADeletedSource(t *testing.T) {
	w := newWorld(t)
	w.repo.Push("say hello", controllertest.Files("worker/10-motd.bu=hello"))
	w.follow()
	w.Remove(w.GitSource())
	controllertest.Equal(t, "when to look again", w.follow().RequeueAfter, 0)
	controllertest.Equal(t, "ref listings", w.repo.Lists, 1)
}
