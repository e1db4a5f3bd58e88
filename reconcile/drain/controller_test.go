package drain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

// podServer is the part of an API server that a drain speaks with: the pods of node n0, their budgets, evictions.
type podServer struct {
	mu   sync.Mutex
	pods []corev1.Pod
	// elsewhere are pods that do not run on node n0.
	elsewhere []corev1.Pod
	budgets   []policyv1.PodDisruptionBudget
	// evicted, refused, bothered while busy, and deleted name pods; refusing are the pods whose budget has no room.
	evicted, refused, bothered, deleted []string
	refusing                            map[string]bool
	// busy answers every eviction as an overloaded server does, deaf every list of pods.
	busy, deaf bool
	// lost: an eviction has its effect, and its answer is lost.
	lost bool
	// noSets: the DaemonSet was deleted.
	noSets   bool
	requests map[string]int
	// meet, where set, is called by each eviction before it is answered.
	meet func()
}

// ServeHTTP answers as kube-apiserver does.
func (s *podServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := req.URL.Path
	if s.meet != nil && strings.HasSuffix(path, "/eviction") {
		s.meet()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := func(code int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v) // a client that is gone reads nothing
	}
	parts := strings.Split(path, "/")
	count := func(what string) { s.requests[what]++ }
	switch {
	case strings.HasSuffix(path, "/eviction"):
		count("evictions")
		s.eviction(w, req, reply)
	case req.Method == http.MethodDelete && parts[5] == "pods":
		count("deletions")
		s.deleted = append(s.deleted, parts[6])
		reply(200, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusSuccess,
		})
	case path == "/api/v1/pods" && s.deaf:
		reply(500, failure(500, metav1.StatusReasonInternalError, "etcdserver: request timed out"))
	case path == "/api/v1/pods" && req.URL.Query().Get("fieldSelector") == "spec.nodeName=n0":
		count("lists of pods")
		reply(200, corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: s.pods})
	case path == "/api/v1/namespaces/shop/pods" && req.URL.Query().Get("labelSelector") != "":
		count("lists of a budget's pods")
		selector, err := labels.Parse(req.URL.Query().Get("labelSelector"))
		if err != nil {
			reply(400, failure(400, metav1.StatusReasonBadRequest, err.Error()))
			return
		}
		reply(200, corev1.PodList{
			TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
			Items: slices.DeleteFunc(slices.Concat(s.pods, s.elsewhere), func(p corev1.Pod) bool {
				return !selector.Matches(labels.Set(p.Labels))
			}),
		})
	case path == "/api/v1/namespaces/shop/pods":
		count("looks at a pod")
		name := strings.TrimPrefix(req.URL.Query().Get("fieldSelector"), "metadata.name=")
		found := slices.DeleteFunc(slices.Clone(s.pods), func(p corev1.Pod) bool { return p.Name != name })
		reply(200, corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: found})
	case strings.HasPrefix(path, "/apis/apps/v1/namespaces/kube-system/daemonsets/") && !s.noSets:
		count("daemonsets")
		reply(200, map[string]any{
			"kind": "DaemonSet", "apiVersion": "apps/v1",
			"metadata": map[string]any{"name": "proxy", "namespace": "kube-system"},
		})
	case strings.HasSuffix(path, "/poddisruptionbudgets"):
		count("lists of budgets")
		reply(200, policyv1.PodDisruptionBudgetList{TypeMeta: metav1.TypeMeta{
			Kind:       "PodDisruptionBudgetList",
			APIVersion: "policy/v1",
		}, Items: s.budgets})
	default:
		reply(404, failure(404, metav1.StatusReasonNotFound, "nothing at "+req.URL.String()))
	}
}

func failure(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: message,
	}
}

func (s *podServer) eviction(w http.ResponseWriter, req *http.Request, reply func(int, any)) {
	name := strings.Split(req.URL.Path, "/")[6]
	var e policyv1.Eviction
	i := slices.IndexFunc(s.pods, func(p corev1.Pod) bool { return p.Name == name })
	switch {
	case json.NewDecoder(req.Body).Decode(&e) != nil || e.DeleteOptions == nil ||
		e.DeleteOptions.Preconditions == nil || i < 0 || *e.DeleteOptions.Preconditions.UID != s.pods[i].UID:
		reply(409, failure(409, metav1.StatusReasonConflict, "the UID in the precondition is that of another pod of "+
			"this name"))
	case s.busy:
		s.bothered = append(s.bothered, name)
		w.Header().Set("Retry-After", "30")
		reply(429, failure(429, metav1.StatusReasonTooManyRequests, "too many requests"))
	case s.refusing[name]:
		s.refused = append(s.refused, name)
		st := failure(429, metav1.StatusReasonTooManyRequests, "Cannot evict pod as it would violate the pod's "+
			"disruption budget.")
		st.Details = &metav1.StatusDetails{RetryAfterSeconds: 30, Causes: []metav1.StatusCause{{
			Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web needs 2 healthy pods and has 2 " +
				"currently",
		}}}
		w.Header().Set("Retry-After", "30")
		reply(429, st)
	default:
		s.evicted = append(s.evicted, name)
		if s.lost {
			s.pods[i].DeletionTimestamp = &metav1.Time{Time: controllertest.Noon}
			panic(http.ErrAbortHandler) // It closes the connection.
		}
		reply(201, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusSuccess,
		})
	}
}

func (s *podServer) end(name string) {
	s.pods = slices.DeleteFunc(s.pods, func(p corev1.Pod) bool { return p.Name == name })
}

func newPod(name string, edit func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", UID: types.UID("uid-" + name),
			Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{NodeName: "n0"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue,
		}}},
	}
	if edit != nil {
		edit(&p)
	}
	return p
}

// put is what a ReplicaSet put there.
func put(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs",
		Controller: new(true),
	}}
}

func daemonPod(p *corev1.Pod) {
	p.Namespace = "kube-system"
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "DaemonSet", Name: "proxy", UID: "ds",
		Controller: new(true),
	}}
}

func staticPod(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }

type drainWorld struct{ *controllertest.Cluster }

// newDrain is node n0 with the pods web, a DaemonSet's and a static one, whose daemon asks for a drain.
func newDrain(t *testing.T, request string) (*drainWorld, *drain.Controller, *podServer) {
	t.Helper()
	n := controllertest.Node("n0", "v0", "v1")
	n.Annotations[v1alpha1.DesiredDrainAnnotation] = request
	n.Annotations[v1alpha1.LastAppliedDrainAnnotation] = "uncordon-v0"
	w := &drainWorld{controllertest.NewCluster(t, n, controllertest.Node("n1", "v0", "v0"))}
	s := &podServer{
		refusing: map[string]bool{}, requests: map[string]int{},
		pods: []corev1.Pod{newPod("web", put), newPod("proxy", daemonPod), newPod("etcd", staticPod)},
		budgets: []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			},
			Status: policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 2, CurrentHealthy: 2, ExpectedPods: 3},
		}},
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return w, w.drainer(t, server.URL), s
}

func (w *drainWorld) drainer(t *testing.T, url string) *drain.Controller {
	t.Helper()
	clients, err := kubernetes.NewForConfig(&rest.Config{
		Host: url, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &drain.Controller{
		Client: w.Client, Live: w.Client, Clients: clients, Now: func() time.Time { return w.Now },
		Events: w.Events,
	}
}

func (w *drainWorld) drain(r *drain.Controller) reconcile.Result {
	w.T.Helper()
	// a client that sleeps for a Retry-After does not make it
	ctx, cancel := context.WithTimeout(w.T.Context(), 10*time.Second)
	defer cancel()
	result, err := r.Reconcile(ctx, controllertest.Request("n0"))
	if err = errors.Join(err, ctx.Err()); err != nil {
		w.T.Fatalf("draining: %v", err)
	}
	return result
}

type kubectlCordoned struct{ client.Client }

func (c kubectlCordoned) Get(ctx context.Context, key client.ObjectKey, o client.Object,
	options ...client.GetOption,
) error {
	if err := c.Client.Get(ctx, key, o, options...); err != nil {
		return err
	}
	if n, is := o.(*corev1.Node); is {
		n.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{}}}`),
		}}
	}
	return nil
}

// shown is the node as a drain leaves it: cordon, mark, acknowledgement, status.
func (w *drainWorld) shown() string {
	n := w.Node("n0")
	a := n.Annotations
	return fmt.Sprintf("cordoned=%t for=%q applied=%s started=%q status=%q", n.Spec.Unschedulable,
		a[v1alpha1.CordonedAnnotation],
		a[v1alpha1.LastAppliedDrainAnnotation], a[v1alpha1.DrainStartedAnnotation], a[v1alpha1.DrainStatusAnnotation])
}

func (w *drainWorld) ask(what string) {
	controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
		n.Annotations[v1alpha1.DesiredDrainAnnotation] = what
	})
}

// TestDraining is what the drain controller promises, a sentence each.
func TestDraining(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *drainWorld, r *drain.Controller, s *podServer){
		"a cache that does not show the acknowledgement yet costs nothing": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			w.drain(r)
			late := w.Node("n0").Annotations
			s.end("web")
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			rounds := s.requests["lists of pods"]
			controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) { n.Annotations = late })
			w.drain(r)
			controllertest.Equal(t, "lists of pods", s.requests["lists of pods"], rounds)
		},
		"it cordons, evicts what has to go, waits for it, and acknowledges": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			controllertest.Equal(t, "when to look again", w.drain(r).RequeueAfter, time.Second)
			controllertest.Equal(t, "evicted", fmt.Sprint(s.evicted), "[web]")
			controllertest.Equal(t, "the node", w.shown(),
				`cordoned=true for="v1" applied=uncordon-v0 started="2026-01-02T12:00:00Z" status="1 pod left: shop/web: terminating (grace period 30s)"`)
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			controllertest.Equal(t, "evicted", fmt.Sprint(s.evicted), "[web]")
			s.end("web")
			w.Now = w.Now.Add(5 * time.Second)
			controllertest.Equal(t, "when to look again", w.drain(r).RequeueAfter, time.Second)
			controllertest.Equal(t, "the node", w.shown(),
				`cordoned=true for="v1" applied=drain-v1 started="" status=""`)
			controllertest.Equal(t, "the events", strings.Join(w.Events.Lines, "\n"), "Normal Cordon: cordoned for v1")
		},
		"a refusal by a budget is waited for, with the budget's name, and asked again": func(t *testing.T,
			w *drainWorld, r *drain.Controller, s *podServer,
		) {
			s.refusing["web"] = true
			w.drain(r)
			controllertest.Contains(t, "the node", w.shown(), "applied=uncordon-v0", "1 pod left: shop/web: blocked "+
				"by PodDisruptionBudget shop/web: 2 of 3 pods must stay healthy, and 2 are healthy")
			w.drain(r)
			controllertest.Equal(t, "refusals at once", len(s.refused), 1)
			w.Now = w.Now.Add(6 * time.Second)
			s.refusing["web"] = false
			w.drain(r)
			controllertest.Equal(t, "evicted once there is room", fmt.Sprint(s.evicted), "[web]")
		},
		"a budget that allows more is asked at once, also after a long wait": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			s.refusing["web"] = true
			w.drain(r)
			w.Now = w.Now.Add(time.Hour)
			controllertest.Equal(t, "when to look again", w.drain(r).RequeueAfter, time.Minute)
			w.Now = w.Now.Add(2 * time.Second)
			other := s.budgets[0].DeepCopy()
			other.Name = "db"
			controllertest.Equal(t, "nodes that wait for another budget", len(r.WaitingFor(t.Context(), other)), 0)
			refused := len(s.refused)
			w.drain(r)
			controllertest.Equal(t, "refusals before the budget changed", len(s.refused), refused)
			s.refusing["web"] = false
			controllertest.Equal(t, "nodes that wait for it", fmt.Sprint(r.WaitingFor(t.Context(), &s.budgets[0])),
				"[/n0]")
			w.drain(r)
			controllertest.Equal(t, "evicted", fmt.Sprint(s.evicted), "[web]")
			controllertest.Equal(t, "nodes that wait after that", len(r.WaitingFor(t.Context(), &s.budgets[0])), 0)
		},
		"an eviction whose answer is lost is looked up": func(t *testing.T, w *drainWorld, r *drain.Controller,
			s *podServer,
		) {
			s.lost = true
			w.drain(r)
			controllertest.Contains(t, "the node", w.shown(), `status="1 pod left: shop/web: terminating`)
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			controllertest.Equal(t, "evicted", fmt.Sprint(s.evicted), "[web]")
			controllertest.Equal(t, "looks at a pod", s.requests["looks at a pod"], 1)
		},
		"a server that is too busy is not taken for a budget": func(t *testing.T, w *drainWorld, r *drain.Controller,
			s *podServer,
		) {
			s.busy = true
			w.drain(r)
			controllertest.Contains(t, "the node", w.shown(), "shop/web: evicting it: too many requests")
		},
		"what takes long is told once, and again once it is stuck": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			s.refusing["web"] = true
			for range 90 {
				w.drain(r)
				w.Now = w.Now.Add(time.Minute)
			}
			var got []string
			for _, line := range w.Events.Lines {
				got = append(got, strings.Join(strings.Fields(line)[:2], " "))
			}
			controllertest.Equal(t, "the events", strings.Join(got, ", "), "Normal Cordon:, Warning DrainBlocked:, "+
				"Warning DrainThresholdExceeded:, Warning DrainFailed:")
		},
		"a restart of the controller does not set the clock back": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			s.refusing["web"] = true
			w.drain(r)
			w.Now = w.Now.Add(11 * time.Minute)
			w.drain(&drain.Controller{
				Client: w.Client, Live: w.Client, Clients: r.Clients, Now: r.Now, Events: w.Events,
			})
			controllertest.Contains(t, "the event", w.LastEvent(), "Warning DrainThresholdExceeded: ",
				"PodDisruptionBudget shop/web")
		},
		"a pod that comes back under its name is evicted as well": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			w.drain(r)
			s.end("web")
			s.pods = append(s.pods, newPod("web", func(p *corev1.Pod) { put(p); p.UID = "uid-web-2" }))
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			controllertest.Equal(t, "evicted", fmt.Sprint(s.evicted), "[web web]")
		},
		"a node that somebody uncordons meanwhile is cordoned again": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			w.drain(r)
			controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) { n.Spec.Unschedulable = false })
			s.end("web")
			w.drain(r)
			controllertest.Contains(t, "the node", w.shown(), "cordoned=true", "applied=drain-v1")
		},
		"uncordon lifts our cordon": func(t *testing.T, w *drainWorld, r *drain.Controller, s *podServer) {
			s.end("web")
			w.drain(r)
			w.ask("uncordon-v1")
			w.drain(r)
			controllertest.Equal(t, "the node", w.shown(),
				`cordoned=false for="" applied=uncordon-v1 started="" status=""`)
		},
		"a node that somebody uncordons and cordons again is drained again, and stays cordoned": func(t *testing.T,
			w *drainWorld, r *drain.Controller, s *podServer,
		) {
			s.end("web")
			w.drain(r)
			controllertest.Contains(t, "drained", w.shown(), `cordoned=true for="v1" applied=drain-v1`)
			r.Client = kubectlCordoned{w.Client}
			w.drain(r)
			controllertest.Contains(t, "undone", w.shown(), `cordoned=true for="" applied=undone-v1`)
			r.Client = w.Client
			w.ask("drain-v1_1")
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			controllertest.Contains(t, "drained again", w.shown(), `cordoned=true for="" applied=drain-v1_1`)
			w.ask("uncordon-v1")
			w.drain(r)
			controllertest.Contains(t, "in the end", w.shown(), `cordoned=true for="" applied=uncordon-v1`)
		},
		"an administrator's cordon survives drain and uncordon": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) { n.Spec.Unschedulable = true })
			s.end("web")
			w.drain(r)
			controllertest.Contains(t, "drained", w.shown(), `cordoned=true for="" applied=drain-v1`)
			w.ask("uncordon-v1")
			w.drain(r)
			controllertest.Contains(t, "in the end", w.shown(), `cordoned=true for="" applied=uncordon-v1`)
		},
		"an administrator's cordon survives restarts of the controller as well": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) { n.Spec.Unschedulable = true })
			w.drain(r)
			s.end("web")
			w.drain(w.anew(r))
			w.ask("uncordon-v1")
			w.drain(w.anew(r))
			controllertest.Contains(t, "in the end", w.shown(), `cordoned=true for="" applied=uncordon-v1`)
		},
		"an administrator who lifts his own cordon meanwhile leaves the node to us": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) { n.Spec.Unschedulable = true })
			w.drain(r)
			controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) { n.Spec.Unschedulable = false })
			w.drain(r)
			controllertest.Contains(t, "cordoned again", w.shown(), `cordoned=true for="v1"`)
			s.end("web")
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			w.ask("uncordon-v1")
			w.drain(r)
			controllertest.Equal(t, "in the end", w.shown(),
				`cordoned=false for="" applied=uncordon-v1 started="" status=""`)
		},
		"a drain that is called off by a revert to the config in force frees the node": func(t *testing.T,
			w *drainWorld, r *drain.Controller, s *podServer,
		) {
			s.refusing["web"] = true
			w.drain(r)
			w.ask("uncordon-v0") // what was applied last, so the daemon sees nothing to wait for
			w.drain(r)
			controllertest.Equal(t, "the node", w.shown(),
				`cordoned=false for="" applied=uncordon-v0 started="" status=""`)
		},
		"a drain that somebody undoes counts no more, and the node stays as it is until the daemon asks again": func(
			t *testing.T, w *drainWorld, r *drain.Controller, s *podServer,
		) {
			s.end("web")
			w.drain(r)
			controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) { n.Spec.Unschedulable = false })
			w.drain(r)
			w.drain(r)
			controllertest.Equal(t, "the node", w.shown(),
				`cordoned=false for="" applied=undone-v1 started="" status=""`)
			controllertest.Contains(t, "the events", strings.Join(w.Events.Lines, "\n"), "Warning DrainUndone")
			w.ask("drain-v1_1")
			w.drain(r)
			controllertest.Equal(t, "the node", w.shown(),
				`cordoned=true for="v1" applied=drain-v1_1 started="" status=""`)
		},
		"nothing asked, nothing written": func(t *testing.T, w *drainWorld, r *drain.Controller, _ *podServer) {
			w.ask("uncordon-v0")
			w.drain(r)
			controllertest.Equal(t, "writes", len(w.Writes.Done), 0)
		},
		"a daemon of another protocol is an error that nobody tries again": func(t *testing.T, w *drainWorld,
			r *drain.Controller, _ *podServer,
		) {
			w.ask("reboot-v1")
			_, err := r.Reconcile(t.Context(), controllertest.Request("n0"))
			if err == nil || !strings.Contains(err.Error(), "terminal") {
				t.Errorf("%v, want a terminal error", err)
			}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r, s := newDrain(t, "drain-v1")
			story(t, w, r, s)
		})
	}
}

// TestACrashInADrain: dead after any write, the next controller ends where a living one does.
func TestACrashInADrain(t *testing.T) {
	for k := range 4 {
		w, r, s := newDrain(t, "drain-v1")
		w.Writes.Left = k
		_, _ = r.Reconcile(t.Context(), controllertest.Request("n0")) // dies
		s.end("web")
		w.Writes.Left = -1
		w.drain(&drain.Controller{
			Client: w.Client, Live: w.Client, Clients: r.Clients, Now: r.Now, Events: w.Events,
		})
		controllertest.Equal(t, fmt.Sprintf("after a death at write %d", k), w.shown(),
			`cordoned=true for="v1" applied=drain-v1 started="" status=""`)
	}
}
