package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

func newFake(t *testing.T, objects ...runtime.Object) (*Kubelet, *fake.FakeDynamicClient) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	client := fake.NewSimpleDynamicClient(scheme, objects...)
	return newKubelet(client, Config{
		Node: "worker-0", BootID: func() (string, error) {
			return "boot-1", nil
		}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}), client
}

func TestAHostWithoutANodeMakesItReadyWithALease(t *testing.T) {
	k, _ := newFake(t)
	ready := func() error { return k.post(t.Context(), true) }
	for _, do := range []func() error{
		func() error { return k.register(t.Context()) }, func() error { return k.register(t.Context()) },
		func() error { return k.renew(t.Context()) }, func() error { return k.renew(t.Context()) }, ready, ready,
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	node, err := k.nodes().get(t.Context(), "worker-0")
	if err != nil {
		t.Fatal(err)
	}
	if got := readiness(node); got != "True KubeletReady" || node.Status.NodeInfo.BootID != "boot-1" ||
		len(node.Status.Conditions) != 4 {
		t.Errorf("%s %+v", got, node.Status)
	}
	var lease *coordinationv1.Lease
	if lease, err = k.leases().get(t.Context(), "worker-0"); err != nil || *lease.Spec.HolderIdentity != "worker-0" {
		t.Errorf("%+v, %v", lease, err)
	}
	if err := k.post(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if node, err = k.nodes().get(t.Context(), "worker-0"); err != nil || readiness(node) != "False KubeletNotReady" {
		t.Errorf("%s, %v", readiness(node), err)
	}
}

// readiness is the Ready condition in words.
func readiness(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "none"
}

func TestTheTimeOfATransitionStaysWhileTheStatusDoes(t *testing.T) {
	first := metav1.Unix(100, 0)
	k := &Kubelet{Config: Config{Node: "n"}}
	s := k.status(corev1.NodeStatus{}, "b", true, first)
	s = k.status(s, "b", true, metav1.Unix(200, 0))
	for _, c := range s.Conditions {
		if !c.LastTransitionTime.Equal(&first) || c.LastHeartbeatTime.Unix() != 200 {
			t.Errorf("%s: %v %v", c.Type, c.LastTransitionTime, c.LastHeartbeatTime)
		}
	}
}

func TestAPodThatIsBoundRunsAndADeletedOneIsGone(t *testing.T) {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"},
		Spec:       corev1.PodSpec{NodeName: "worker-0", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{
			Phase:      corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
		},
	}
	k, _ := newFake(t, &pod)
	if err := k.act(t.Context(), &pod, metav1.Now()); err != nil {
		t.Fatal(err)
	}
	is, err := k.pods("default").get(t.Context(), "p")
	if err != nil || is.Status.Phase != corev1.PodRunning || !is.Status.ContainerStatuses[0].Ready ||
		len(is.Status.Conditions) != 3 {
		t.Fatalf("%+v, %v", is.Status, err)
	}
	for _, c := range is.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			t.Errorf("%+v", c)
		}
	}
	now := metav1.Now()
	is.DeletionTimestamp = &now
	for range 2 {
		if err := k.act(t.Context(), is, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.pods("default").get(t.Context(), "p"); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestAStatusIsPostedThoughOthersWriteTheNodeToo(t *testing.T) {
	k, client := newFake(t)
	if err := k.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	conflicts := 2
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts < 0 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "worker-0",
			errors.New("changed"))
	})
	if err := k.post(t.Context(), true); err != nil || conflicts >= 0 {
		t.Errorf("%v, %d conflicts left", err, conflicts)
	}
}

func TestTheStatusIsPostedWithoutTheTaintsThatOthersWrite(t *testing.T) {
	k, client := newFake(t)
	if err := k.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	patches := 0
	client.PrependReactor("*", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := a.(clienttesting.PatchAction)
		if !ok {
			if a.GetVerb() == "update" {
				t.Error("the whole Node was written")
			}
			return false, nil, nil
		}
		patches++
		var fields map[string]any
		if err := json.Unmarshal(patch.GetPatch(), &fields); err != nil {
			t.Fatal(err)
		}
		if fields["spec"] != nil || a.GetSubresource() != "status" {
			t.Errorf("%s of %q", patch.GetPatch(), a.GetSubresource())
		}
		return false, nil, nil
	})
	if err := k.post(t.Context(), true); err != nil || patches != 1 {
		t.Errorf("%v, %d patches", err, patches)
	}
}

func TestAPodThatCouldNotBeFinishedIsLookedAtAgain(t *testing.T) {
	now := metav1.Now()
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "p", UID: "u",
		DeletionTimestamp: &now,
	}}
	k, client := newFake(t)
	shown, err := k.pods("default").untyped(gone)
	if err != nil {
		t.Fatal(err)
	}
	deletes := 0
	client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if deletes++; deletes == 1 {
			return true, nil, apierrors.NewTooManyRequests("later", 1)
		}
		return true, nil, nil
	})
	for range 2 {
		events := watch.NewFakeWithChanSize(1, false)
		events.Add(shown)
		client.PrependWatchReactor("pods", clienttesting.DefaultWatchReactor(events, nil))
		if deletes > 0 {
			events.Stop()
		}
		if err := k.watchPods(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if deletes != 2 {
		t.Errorf("it was deleted %d times", deletes)
	}
}

func TestNobodyWaitsForAKubeletThatHasEnded(t *testing.T) {
	k, _ := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		k.SetReady(ctx, true)
	}
}
