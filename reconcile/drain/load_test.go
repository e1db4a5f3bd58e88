package drain_test

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubectldrain "k8s.io/kubectl/pkg/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

// many are pods of a Deployment, all of them ready.
func many(n int) []corev1.Pod {
	pods := make([]corev1.Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("web-%03d", i), func(p *corev1.Pod) {
			put(p)
			p.Labels = map[string]string{"app": "web"}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		})
	}
	return pods
}

// spent is how many requests of each kind were made since the last time.
func (s *podServer) spent() string {
	var parts []string
	for what, n := range s.requests {
		parts = append(parts, fmt.Sprintf("%d %s", n, what))
	}
	clear(s.requests)
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// TestEvictionsRunBesideEachOther: ten at a time, never more.
func TestEvictionsRunBesideEachOther(t *testing.T) {
	const together = 10
	w, r, s := newDrain(t, "drain-v1")
	s.pods = many(250)
	var mu sync.Mutex
	var now, most, calls int
	full := make(chan struct{})
	s.meet = func() {
		mu.Lock()
		now, calls = now+1, calls+1
		most = max(most, now)
		if calls == together {
			close(full)
		}
		mu.Unlock()
		<-full // the first ten wait for each other: fewer than ten at a time would never get past here
		mu.Lock()
		now--
		mu.Unlock()
	}
	w.drain(r)
	controllertest.Equal(t, "evicted", len(s.evicted), 250)
	controllertest.Equal(t, "at most at a time", most, together)
}

// TestWhatADrainCosts counts the requests of drains of 250 pods.
func TestWhatADrainCosts(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *drainWorld, s *podServer, look func(int) string){
		"pods that go at once cost one eviction each, and two lists": func(t *testing.T, w *drainWorld, s *podServer,
			look func(int) string,
		) {
			controllertest.Equal(t, "the first look", look(1), "1 daemonsets, 1 lists of pods, 250 evictions")
			s.pods = s.pods[:2] // the DaemonSet's and the static one
			controllertest.Equal(t, "the last look", look(1), "1 lists of pods")
			controllertest.Contains(t, "the node", w.shown(), "applied=drain-v1")
			controllertest.Equal(t, "writes of the node", len(w.Writes.Done), 3)
		},
		"pods that take their time cost one list each time": func(t *testing.T, w *drainWorld, s *podServer,
			look func(int) string,
		) {
			look(1)
			for i := range s.pods[2:] {
				s.pods[2+i].DeletionTimestamp,
					s.pods[2+i].DeletionGracePeriodSeconds = new(
					metav1.NewTime(controllertest.Noon.Add(10*time.Minute))), new(int64(600))
			}
			controllertest.Equal(t, "a minute", look(12), "1 daemonsets, 12 lists of pods")
		},
		"a budget without room costs one eviction each time, however many pods wait for it": func(t *testing.T,
			w *drainWorld, s *podServer, look func(int) string,
		) {
			for _, p := range s.pods {
				s.refusing[p.Name] = true
			}
			controllertest.Equal(t, "the first look", look(1), "1 daemonsets, 1 lists of a budget's pods, 1 lists of "+
				"budgets, 1 lists of pods, 250 evictions")
			controllertest.Equal(t, "a minute", look(12), "1 daemonsets, 12 evictions, 12 lists of a budget's pods, "+
				"12 lists of budgets, 12 lists of pods")
			slices.Sort(s.refused)
			controllertest.Equal(t, "pods asked for", len(slices.Compact(s.refused)), 250)
			for _, p := range s.pods {
				s.refusing[p.Name] = false
			}
			controllertest.Equal(t, "once there is room", look(1), "1 lists of pods, 250 evictions")
		},
		"a server with trouble of its own is not asked for everything": func(t *testing.T, w *drainWorld, s *podServer,
			look func(int) string,
		) {
			s.busy = true
			look(1)
			if n := len(s.bothered); n < 1 || n > 20 {
				t.Errorf("%d evictions were asked for", n)
			}
			for range 300 {
				look(1)
			}
			slices.Sort(s.bothered)
			controllertest.Equal(t, "pods that had their turn", len(slices.Compact(s.bothered)), 250)
		},
		"a clock that is set back puts nothing off": func(t *testing.T, w *drainWorld, s *podServer,
			look func(int) string,
		) {
			look(1)
			w.Now = w.Now.Add(-24 * time.Hour)
			controllertest.Equal(t, "the next look", look(1), "1 daemonsets, 1 lists of pods, 250 evictions")
		},
		"news of the node between two looks cost nothing": func(t *testing.T, w *drainWorld, s *podServer,
			look func(int) string,
		) {
			look(1)
			w.Now = w.Now.Add(-4500 * time.Millisecond) // half a second after the look
			controllertest.Equal(t, "a heartbeat", look(0), "")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r, s := newDrain(t, "drain-v1")
			s.pods = append(s.pods[1:], many(250)...)
			story(t, w, s, func(times int) string {
				for range times {
					w.drain(r)
					w.Now = w.Now.Add(5 * time.Second)
				}
				if times == 0 {
					w.drain(r)
				}
				return s.spent()
			})
		})
	}
}

// searches counts the lists of all nodes.
type searches struct {
	client.Client
	count int
}

func (s *searches) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*corev1.NodeList); is {
		s.count++
	}
	return s.Client.List(ctx, list, options...)
}

// TestADrainSearchesNoOtherNodeTwice: a list of all nodes for each drain let a rollout to 5,000 nodes cost twice as
// much a node as one to 500. What was found counts only while it is true.
func TestADrainSearchesNoOtherNodeTwice(t *testing.T) {
	reserved := []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	for sentence, story := range map[string]struct {
		// what happens between the first round and the others
		then func(w *drainWorld)
		// the lists of all nodes in all rounds
		lists   int
		evicted bool
	}{
		"while the other node can run the pods, no other one is searched": {
			then: func(*drainWorld) {}, lists: 1, evicted: true,
		},
		"a node that is reserved now is no answer, and another one is found": {
			then: func(w *drainWorld) {
				w.Create(controllertest.Node("n2", "v0", "v0"))
				controllertest.Modify(w.Cluster, w.Node("n1"), func(n *corev1.Node) { n.Spec.Taints = reserved })
			}, lists: 2, evicted: true,
		},
		"a node that is deleted now is no answer, and another one is found": {
			then: func(w *drainWorld) {
				w.Create(controllertest.Node("n2", "v0", "v0"))
				w.Remove(w.Node("n1"))
			}, lists: 2, evicted: true,
		},
		"once the last other node is reserved, pods stay": {
			then: func(w *drainWorld) {
				controllertest.Modify(w.Cluster, w.Node("n1"), func(n *corev1.Node) { n.Spec.Taints = reserved })
			}, lists: 4,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r, s := newDrain(t, "drain-v1")
			counted := &searches{Client: w.Client}
			r.Client = counted
			s.pods = s.pods[1:2] // the DaemonSet's
			round := func() {
				w.drain(r)
				w.Now = w.Now.Add(5 * time.Second)
				controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) { // for the next round
					n.Annotations[v1alpha1.LastAppliedDrainAnnotation] = "uncordon-v0"
				})
			}
			round()
			story.then(w)
			s.pods = append(s.pods, newPod("web", put))
			for range 3 {
				round()
			}
			controllertest.Equal(t, "lists of all nodes", counted.count, story.lists)
			controllertest.Equal(t, "evicted", slices.Contains(s.evicted, "web"), story.evicted)
		})
	}
}

// TestTheFiltersAreKubectls: what has to go is what `kubectl drain --force --ignore-daemonsets --delete-emptydir-data`
// takes, on random pods. What has finished stays, as it disturbs nobody: the one difference.
func TestTheFiltersAreKubectls(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "here"}}
	flip := func() bool { return r.Intn(2) == 0 }
	for i := range 500 {
		p := newPod(fmt.Sprintf("p%d", i), func(p *corev1.Pod) {
			p.Status.Phase = []corev1.PodPhase{
				corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded,
				corev1.PodFailed, corev1.PodUnknown,
			}[r.Intn(5)]
			if flip() {
				p.Spec.Volumes = []corev1.Volume{{
					Name:         "v",
					VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
				}}
			}
			if r.Intn(4) == 0 {
				staticPod(p)
			}
			if flip() {
				kind, api := []string{"DaemonSet", "ReplicaSet"}[r.Intn(2)],
					[]string{"apps/v1", "apps.kruise.io/v1alpha1"}[r.Intn(2)]
				p.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: api, Kind: kind,
					Name: []string{"here", "gone"}[r.Intn(2)], UID: types.UID("u"), Controller: new(flip()),
				}}
			}
		})
		helper := kubectldrain.Helper{
			Ctx: t.Context(), Client: fake.NewClientset(set, &p), Force: true,
			IgnoreAllDaemonSets: true, DeleteEmptyDirData: true,
		}
		list, errs := helper.GetPodsForDeletion("n0")
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		theirs := len(list.Pods()) > 0 && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
		verdict := drain.Decide(drain.Facts{Pods: []drain.Pod{{Pod: &p, Orphan: drain.DaemonSetOf(&p) == "gone"}}},
			controllertest.Noon).Verdicts[0]
		if ours := verdict.Do == drain.Evict; ours != theirs {
			t.Errorf("kubectl takes it: %t; we: %s %s\n%+v", theirs, verdict.Do, verdict.Why, p)
		}
	}
}
