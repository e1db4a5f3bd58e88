package reconcile_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

// TestWhoCordonedOnARealAPIServer: the API server itself says who owns a cordon.
func TestWhoCordonedOnARealAPIServer(t *testing.T) {
	env, rc := startServer(t, nil)
	c, err := client.New(rc, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Name: "n0"}
	born := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Labels: map[string]string{"by": "kubelet"}}}
	if err := c.Create(t.Context(), born); err != nil {
		t.Fatal(err)
	}
	read := func() *corev1.Node {
		t.Helper()
		n := &corev1.Node{}
		if err := c.Get(t.Context(), key, n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	set := func(to drain.Cordoned) {
		t.Helper()
		n := read()
		before := n.DeepCopy()
		to.Set(n)
		owner := client.FieldOwner(v1alpha1.CordonManager)
		if err := c.Patch(t.Context(), n, client.MergeFrom(before), owner); err != nil {
			t.Fatal(err)
		}
	}
	kubectl := func(patch string) {
		t.Helper()
		if err := c.Patch(t.Context(), read(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)),
			client.FieldOwner("kubectl")); err != nil {
			t.Fatal(err)
		}
	}
	is := func(says string, want bool) {
		t.Helper()
		n := read()
		cached, err := reconcile.CacheOptions().DefaultTransform(n.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		kept := cached.(*corev1.Node)
		if v1alpha1.IsCordonReplaced(n) != want || v1alpha1.IsCordonReplaced(kept) != want ||
			len(kept.ManagedFields) > 1 {
			t.Errorf("%s: it is replaced: %t, want %t; the cache has %v", says, !want, want, kept.ManagedFields)
		}
	}
	is("nobody cordoned", false)
	set(drain.Cordoned{Unschedulable: true, For: "v1"})
	is("the controller cordoned", false)
	kubectl(`{"spec": {"unschedulable": true}, "metadata": {"labels": {"a": "b"}}}`)
	is("kubectl cordoned what was cordoned", false)
	kubectl(`{"spec": {"unschedulable": null}}`)
	kubectl(`{"spec": {"unschedulable": true}}`)
	is("kubectl uncordoned and cordoned", true)
	set(drain.CordonOf(read()))
	is("the controller wrote something else", true)
	set(drain.Tidy(drain.CordonOf(read())).To)
	is("the controller left the cordon to its owner", false)
	if n := read(); !n.Spec.Unschedulable || n.Annotations[v1alpha1.CordonedAnnotation] != "" {
		t.Errorf("%+v", n)
	}
	set(drain.Cordoned{})
	set(drain.Cordoned{Unschedulable: true, For: "v2"})
	is("the controller cordoned again", false)
}
