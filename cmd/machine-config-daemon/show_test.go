package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// showWrites are told against a real API server, which has no object yet.
var showWrites = []struct {
	says, who, object string
	metadata          string
	// denied is a word of the refusal; "" is allowed.
	denied string
}{
	{"a node does not speak for another", "the node", "worker-1", "", "speaks for worker-0, not for worker-1"},
	{"a daemon with a token of another node does not either", "the account", "worker-1", "", "speaks for worker-0, not for worker-1"},
	{"a token that is bound to no node shows nothing", "an unbound account", "worker-0", "", "bound to no node"},
	{"it goes with its Node, and with nothing else", "the node", "worker-0", `,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"00000000-0000-0000-0000-000000000000"}]`, "goes with its Node"},
	{"not with the Node of another", "the node", "worker-0", `,"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"worker-1","uid":"00000000-0000-0000-0000-000000000000"}]`, "goes with its Node"},
	{"and nobody keeps it", "the node", "worker-0", `,"finalizers":["example.com/stay"]`, "goes with its Node"},
	{"a daemon with a token of this node shows", "the account", "worker-0", "", ""},
	{"a node shows", "the node", "worker-0", "", ""},
}

// whatANodeShows needs the rights and Nodes that whatANodeMayWrite made.
func whatANodeShows(t *testing.T, p plane) {
	t.Helper()
	as := func(who string) dynamic.ResourceInterface {
		config := rest.CopyConfig(p.admin)
		config.Impersonate = daemonAs[who]
		return showsOf(t, config)
	}
	awaitShowPolicy(t, as("the node"))
	for _, c := range showWrites {
		t.Run(c.says, func(t *testing.T) {
			text := fmt.Sprintf(
				`{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfigNode","metadata":{"name":%q%s},"spec":{"node":{"name":%q},"pool":{"name":"worker"},"configVersion":{"desired":"a"}}}`, c.object, c.metadata, c.object)
			_, err := as(c.who).Patch(t.Context(), c.object, types.ApplyPatchType, []byte(text),
				metav1.PatchOptions{FieldManager: "x", Force: new(true)})
			switch {
			case c.denied == "" && err != nil:
				t.Error(err)
			case c.denied != "" && (err == nil || !strings.Contains(err.Error(), c.denied)):
				t.Errorf("want a refusal that says %q, got: %v", c.denied, err)
			}
		})
	}
	if err := as("the node").Delete(t.Context(), "worker-0", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a node deletes it: %v", err)
	}
	if err := as("the account").Delete(t.Context(), "worker-0", metav1.DeleteOptions{}); err == nil ||
		!strings.Contains(err.Error(), "goes with its Node") {
		t.Errorf("a daemon with the right to delete deletes it: %v", err)
	}
	if err := showsOf(t, p.admin).Delete(t.Context(), "worker-0", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	t.Run("the daemon's own board", func(t *testing.T) { aBoardOnARealAPIServer(t, p) })
	t.Run("the heartbeat", func(t *testing.T) { aHeartbeatOnARealAPIServer(t, p) })
}

// awaitShowPolicy waits until the API server has taken the policy up.
func awaitShowPolicy(t *testing.T, shows dynamic.ResourceInterface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		text := `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfigNode","metadata":{"name":"other"},"spec":{"node":{"name":"other"},"pool":{"name":"worker"},"configVersion":{"desired":"a"}}}`
		_, err := shows.Patch(ctx, "other", types.ApplyPatchType, []byte(text), metav1.PatchOptions{
			FieldManager: "x",
			DryRun:       []string{metav1.DryRunAll},
		})
		if err != nil && strings.Contains(err.Error(), "not for other") {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the policy does not act: %v", err)
		case <-again.C:
		}
	}
}

func showsOf(t *testing.T, config *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(mcfgv1.GroupVersion.WithResource("machineconfignodes"))
}

// aBoardOnARealAPIServer shows places as a node, and sees that the API takes them all.
func aBoardOnARealAPIServer(t *testing.T, p plane) {
	t.Helper()
	config := rest.CopyConfig(p.admin)
	config.Impersonate = daemonAs["the node"]
	client, err := kube.New(config, "worker-0")
	if err != nil {
		t.Fatal(err)
	}
	node, err := client.Node(t.Context())
	if err != nil || node.UID == "" {
		t.Fatalf("%+v, %v", node, err)
	}
	cluster := kube.NewConnection("worker-0", func() (*rest.Config, error) { return config, nil })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	board := cluster.NewStatusPublisher(t.Context(), log)
	told := report.Node{UID: node.UID, Current: "rendered-infra-1", Desired: "rendered-infra-2"}
	refused := told
	refused.State, refused.Reason = "Unreconcilable", "rendered-infra-2 cannot be taken"
	was := map[string]metav1.Time{}
	for _, at := range []report.Status{
		{Phase: report.Idle, Node: report.Node{UID: node.UID}},
		{Phase: report.Draining, Planned: true, Drains: true, Node: told},
		{Phase: report.Refused, Node: refused, Refusals: []disruption.Refusal{{Field: "fips", Why: "install it anew"}, {Field: "storage.files /a append", Why: "no"}}},
		{Phase: report.Idle, Node: report.Node{UID: node.UID, Current: "rendered-infra-2", Desired: "rendered-infra-2"}},
	} {
		at.NodeName = "worker-0"
		board.Publish(at)
		is := awaitShown(t, p, at)
		if o := is.OwnerReferences; len(o) != 1 || string(o[0].UID) != node.UID || o[0].Kind != "Node" {
			t.Errorf("it goes with %+v", o)
		}
		if is.Status.ObservedGeneration != is.Generation || is.ManagedFields[0].Manager != "machine-config-operator" {
			t.Errorf("generation %d was seen of %d, by %s", is.Status.ObservedGeneration, is.Generation,
				is.ManagedFields[0].Manager)
		}
		for _, c := range is.Status.Conditions {
			if at, known := was[c.Type+string(c.Status)]; known && at != c.LastTransitionTime &&
				c.Type == "RebootedNode" {
				t.Errorf("%s moved from %s to %s", c.Type, at, c.LastTransitionTime)
			}
			was[c.Type+string(c.Status)] = c.LastTransitionTime
		}
	}
}

// aHeartbeatOnARealAPIServer reports as a node, and sees that the report stays when the board writes.
func aHeartbeatOnARealAPIServer(t *testing.T, p plane) {
	t.Helper()
	config := rest.CopyConfig(p.admin)
	config.Impersonate = daemonAs["the node"]
	cluster := kube.NewConnection("worker-0", func() (*rest.Config, error) { return config, nil })
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	told := report.Node{Current: "rendered-infra-2", Desired: "rendered-infra-3"}
	board := cluster.NewStatusPublisher(t.Context(), log)
	board.Publish(report.Status{NodeName: "worker-0", Phase: report.Draining, Planned: true, Drains: true, Node: told})
	watch, err := showsOf(t, p.admin).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	cluster.Heartbeat(t.Context(), v1alpha1.DaemonReport{Version: "v1"}, nil, log)
	for event := range watch.ResultChan() {
		is, ok := event.Object.(*unstructured.Unstructured)
		if !ok || is.GetName() != "worker-0" || is.GetAnnotations()[v1alpha1.DaemonAnnotation] == "" {
			continue
		}
		if r, err := v1alpha1.ParseDaemonReport(is.GetAnnotations()[v1alpha1.DaemonAnnotation]); err != nil ||
			r.Version != "v1" || r.ReadsAllConfigs {
			t.Errorf("%+v, %v", r, err)
		}
		break
	}
	at := report.Status{NodeName: "worker-0", Phase: report.Idle, Node: report.Node{
		Current: "rendered-infra-3",
		Desired: "rendered-infra-3",
	}}
	board.Publish(at)
	if is := awaitShown(t, p, at); is.Annotations[v1alpha1.DaemonAnnotation] == "" {
		t.Error("the board removed the heartbeat")
	}
}

// awaitShown waits until the object says what a place wants.
func awaitShown(t *testing.T, p plane, at report.Status) mcfgv1.MachineConfigNode {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		var is mcfgv1.MachineConfigNode
		var u *unstructured.Unstructured
		u, err := showsOf(t, p.admin).Get(ctx, at.NodeName, metav1.GetOptions{})
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &is)
		}
		if err == nil && is.Spec == at.Spec() && report.SameStatus(is.Status, at.ObjectStatus(is.Status, is.Generation,
			metav1.Now())) && meta.FindStatusCondition(is.Status.Conditions, "Updated") != nil {
			return is
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s is not shown: %v: %+v", at.Phase, err, is)
		case <-again.C:
		}
	}
}
