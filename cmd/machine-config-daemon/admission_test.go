package main

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/kube"
)

// daemonRights is what a daemon with a service account of its own needs beside what nodes have.
const daemonRights = `{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "test-daemon"}, "rules": [
    {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["get", "list", "watch", "patch", "create"]},
    {"apiGroups": ["machineconfiguration.openshift.io"], "resources": ["machineconfignodes", "machineconfignodes/status"], "verbs": ["get", "patch", "create", "delete"]}]},
  {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "test-daemon"},
   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "test-daemon"},
   "subjects": [{"kind": "User", "name": "system:serviceaccount:bunsen-system:machine-config-daemon", "apiGroup": "rbac.authorization.k8s.io"}]}]}`

// daemonAs are the identities that speak.
var daemonAs = map[string]rest.ImpersonationConfig{
	"the node":           {UserName: "system:node:worker-0", Groups: []string{"system:nodes", "system:authenticated"}},
	"the other node":     {UserName: "system:node:worker-1", Groups: []string{"system:nodes", "system:authenticated"}},
	"the new node":       {UserName: "system:node:worker-3", Groups: []string{"system:nodes", "system:authenticated"}},
	"the controller":     {UserName: "system:serviceaccount:bunsen-system:machine-config-controller", Groups: []string{"system:serviceaccounts", "system:authenticated"}},
	"an administrator":   {UserName: "ada", Groups: []string{"system:masters", "system:authenticated"}},
	"the account":        {UserName: "system:serviceaccount:bunsen-system:machine-config-daemon", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"worker-0"}}},
	"an unbound account": {UserName: "system:serviceaccount:bunsen-system:machine-config-daemon", Groups: []string{"system:authenticated"}},
}

// nodeWrites are told against a real API server. Nodes: worker-0, which was told a desired config, has a label and a
// kubelet's annotation; worker-1, which was told nothing.
var nodeWrites = []struct {
	says, who, node, part string
	patch                 string
	// denied is a word of the refusal; "" is allowed.
	denied string
}{
	{"a node tells what its daemon has to say", "the node", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/state":"Working","machineconfiguration.openshift.io/reason":"","machineconfiguration.openshift.io/currentConfig":"rendered-worker-1","machineconfiguration.openshift.io/desiredDrain":"drain-rendered-worker-2","machineconfiguration.openshift.io/post-config-action":"Rebooting","machineconfiguration.openshift.io/ssh":"accessed","bunsen.dev/drift":"{}","bunsen.dev/failure":"{}","bunsen.dev/fetched":"{}"}}}`, ""},
	{"a node does not choose which files it downloads", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/nextConfig":"rendered-master-1 2026-01-02T12:00:00Z"}}}`, "nextConfig"},
	{"the controller names the next config", "the controller", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/nextConfig":"rendered-worker-2 2026-01-02T12:00:00Z"}}}`, ""},
	{"a node does not say what another one has", "the node", "worker-1", "", `{"metadata":{"annotations":{"bunsen.dev/fetched":"{}"}}}`, "not allowed to modify node"},
	{"a node tells that it lacks secrets of its first config", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/withheld":"rendered-worker-1"}}}`, ""},
	{"a node tells that it has them", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/withheld":""}}}`, ""},
	{"a node takes the annotation away", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/withheld":null}}}`, ""},
	{"a daemon with a token of this node tells that it has its secrets", "the account", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/withheld":""}}}`, ""},
	{"a node does not tell it of another", "the node", "worker-1", "", `{"metadata":{"annotations":{"bunsen.dev/withheld":""}}}`, "not allowed to modify node"},
	{"a node tells the revision of its secrets", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/currentSecrets":"0a1f"}}}`, ""},
	{"a node does not choose the revision of its next secrets", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/desiredSecrets":"02"}}}`, "desiredSecrets"},
	{"a node that was told nothing is seeded", "the other node", "worker-1", "", `{"metadata":{"annotations":{"bunsen.dev/desiredSecrets":"01","bunsen.dev/currentSecrets":"01","machineconfiguration.openshift.io/currentConfig":"rendered-worker-1","machineconfiguration.openshift.io/desiredConfig":"rendered-worker-1","machineconfiguration.openshift.io/firstPivotConfig":"rendered-worker-1"}}}`, ""},
	{"a kubelet writes annotations and labels of its own", "the node", "worker-0", "", `{"metadata":{"annotations":{"volumes.kubernetes.io/controller-managed-attach-detach":"true"},"labels":{"example.com/own":"x"}}}`, ""},
	{"a kubelet's heartbeat goes through", "the node", "worker-0", "status", `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"ok","lastHeartbeatTime":"2026-01-02T12:00:00Z","lastTransitionTime":"2026-01-02T12:00:00Z"}]}}`, ""},
	{"a daemon with a token of this node tells", "the account", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/state":"Done"}}}`, ""},
	{"the controller assigns and acknowledges", "the controller", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/desiredConfig":"rendered-worker-2","machineconfiguration.openshift.io/lastAppliedDrain":"drain-rendered-worker-2"}},"spec":{"unschedulable":true}}`, ""},
	{"whoever manages machines ties a Node to its machine", "an administrator", "worker-0", "", `{"metadata":{"finalizers":["example.com/machine"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"00000000-0000-0000-0000-000000000000"}]}}`, ""},
	{"a kubelet writes on a Node that others tied", "the node", "worker-0", "", `{"metadata":{"annotations":{"example.com/tied":"x"}}}`, ""},

	{"a node does not keep its Node from being deleted", "the node", "worker-0", "", `{"metadata":{"finalizers":["example.com/stay"]}}`, "finalizer"},
	{"a node does not have its Node collected, to be made anew", "the node", "worker-0", "", `{"metadata":{"ownerReferences":[{"$patch":"replace"},{"apiVersion":"v1","kind":"ConfigMap","name":"y","uid":"00000000-0000-0000-0000-000000000001"}]}}`, "owner"},
	{"a node that has reported names no first config", "the other node", "worker-1", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/firstPivotConfig":"rendered-infra-1"}}}`, "firstPivotConfig"},
	{"the controller changes no owner of a Node", "the controller", "worker-0", "", `{"metadata":{"finalizers":["example.com/other"]}}`, "no owner and no finalizer"},
	{"a node does not name its own next config", "the node", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/desiredConfig":"rendered-master-1"}}}`, "desiredConfig"},
	{"a node does not forget its next config", "the node", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/desiredConfig":null}}}`, "desiredConfig"},
	{"a node does not acknowledge its own drain", "the node", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/lastAppliedDrain":"drain-x"}}}`, "lastAppliedDrain"},
	{"nor by way of its status", "the node", "worker-0", "status", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/lastAppliedDrain":"drain-x"}}}`, "lastAppliedDrain"},
	{"a node does not write what the controller keeps there", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/cordoned-for":null}}}`, "cordoned-for"},
	{"a node writes no annotation of the protocol that nobody knows", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/new":"x"}}}`, "bunsen.dev/new"},
	{"a request for a drain is one", "the node", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/desiredDrain":"please"}}}`, "not what a daemon writes: machineconfiguration.openshift.io/desiredDrain"},
	{"a node does not open itself again", "the node", "worker-0", "", `{"spec":{"unschedulable":false}}`, "neither closes nor opens"},
	{"a node does not speak for another", "the node", "worker-1", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/state":"Done"}}}`, "not allowed to modify node"},
	{"a daemon with a token of another node does not either", "the account", "worker-1", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/state":"Done"}}}`, "speaks for worker-0, not for worker-1"},
	{"a token that is bound to no node writes nothing", "an unbound account", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/state":"Done"}}}`, "bound to no node"},
	{"a node reports drift", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/drift":"{\"config\":\"a\",\"items\":[{\"name\":\"a\\nkind\",\"kind\":\"content\",\"action\":\"Degrade\",\"since\":\"2026-01-02T12:00:00Z\"}]}"}}}`, ""},
	{"drift has a kind", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/drift":"{\"items\":[{\"kind\":\"content\",\"action\":\"Warn\\nTo do: x\"}]}"}}}`, "unknown kind or action"},
	{"a report has a size", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/failure":"` + strings.Repeat("x", v1alpha1.MaxNodeReport+1) + `"}}}`, "not what a daemon writes: bunsen.dev/failure"},
	{"a revision of secrets is one", "the node", "worker-0", "", `{"metadata":{"annotations":{"bunsen.dev/currentSecrets":"cs\nTo do: x"}}}`, "not what a daemon writes: bunsen.dev/currentSecrets"},
	{"a node does not forget its config", "the node", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/currentConfig":null}}}`, "does not remove its machineconfiguration.openshift.io/currentConfig"},
	{"nor empties it", "the node", "worker-0", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/currentConfig":""}}}`, "does not remove its machineconfiguration.openshift.io/currentConfig"},
	{"a node without reports that was assigned a config chooses no other", "the new node", "worker-3", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/desiredConfig":"rendered-infra-1"}}}`, "desiredConfig"},
	{"nor its secrets", "the new node", "worker-3", "", `{"metadata":{"annotations":{"bunsen.dev/desiredSecrets":"01"}}}`, "desiredSecrets"},
	{"it names the config of its first boot", "the new node", "worker-3", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/firstPivotConfig":"rendered-infra-1"}}}`, ""},
	{"it names it once", "the new node", "worker-3", "", `{"metadata":{"annotations":{"machineconfiguration.openshift.io/firstPivotConfig":"rendered-master-1"}}}`, "firstPivotConfig"},
	{"a daemon with an account writes no labels", "the account", "worker-0", "", `{"metadata":{"labels":{"example.com/disk":"ssd"}}}`, "nothing else"},
	{"a daemon with an account sets no role", "the account", "worker-0", "", `{"metadata":{"labels":{"node-role.kubernetes.io/infra":""}}}`, "node-role.kubernetes.io/infra of its Node"},
	{"a daemon with an account writes no annotations of others", "the account", "worker-0", "", `{"metadata":{"annotations":{"example.com/x":"y"}}}`, "nothing else"},
	{"a daemon with an account writes no spec", "the account", "worker-0", "", `{"spec":{"providerID":"x://y"}}`, "nothing else"},
}

func TestOnARealAPIServer(t *testing.T) {
	p := controlPlane(t)
	t.Run("what a node may write", func(t *testing.T) { whatANodeMayWrite(t, p) })
	t.Run("what a node may read", func(t *testing.T) { whatANodeMayRead(t, p) })
	t.Run("which node the daemon is", func(t *testing.T) { whichNodeTheDaemonIs(t, p) })
	t.Run("what a node shows", func(t *testing.T) { whatANodeShows(t, p) })
	t.Run("the DaemonSet is taken", func(t *testing.T) {
		p.kubectl(t, "", "apply", "--dry-run=server", "--validate=strict", "-k", filepath.Join("..", "..", "config",
			"daemon"))
	})
	t.Run("a machine that the server bore joins", func(t *testing.T) {
		// no server runs
		p.kubectl(t, "", "apply", "-k", filepath.Join("..", "..", "config", "components", "nodes-read-configs"))
		aBornMachineJoins(t, p)
	})
}

func whatANodeMayWrite(t *testing.T, p plane) {
	t.Helper()
	admin := p.admin
	as := func(who string) dynamic.ResourceInterface {
		config := rest.CopyConfig(admin)
		config.Impersonate = daemonAs[who]
		return nodesOf(t, config)
	}
	p.kubectl(t, daemonRights, "apply", "-f", "-")
	for name, node := range map[string]map[string]any{
		"worker-0": {"annotations": map[string]any{"machineconfiguration.openshift.io/desiredConfig": "rendered-worker-1", "bunsen.dev/cordoned-for": "x"}},
		"worker-1": {},
		"worker-3": {"annotations": map[string]any{"machineconfiguration.openshift.io/desiredConfig": "rendered-worker-1"}},
	} {
		node["name"] = name
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node",
			"metadata": node, "spec": map[string]any{"unschedulable": true},
		}}
		if _, err := nodesOf(t, admin).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitPolicy(t, as("the node"))
	for _, c := range nodeWrites {
		t.Run(c.says, func(t *testing.T) {
			var part []string
			if c.part != "" {
				part = []string{c.part}
			}
			_, err := as(c.who).Patch(t.Context(), c.node, types.StrategicMergePatchType, []byte(c.patch),
				metav1.PatchOptions{}, part...)
			switch {
			case c.denied == "" && err != nil:
				t.Error(err)
			case c.denied != "" && (err == nil || !strings.Contains(err.Error(), c.denied)):
				t.Errorf("want a refusal that says %q, got: %v", c.denied, err)
			}
		})
	}
	t.Run("nor by server-side apply", func(t *testing.T) {
		applied := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"worker-0","annotations":{"machineconfiguration.openshift.io/lastAppliedDrain":"drain-x"}}}`
		_, err := as("the node").Patch(t.Context(), "worker-0", types.ApplyPatchType, []byte(applied),
			metav1.PatchOptions{FieldManager: "x", Force: new(true)})
		if err == nil || !strings.Contains(err.Error(), "lastAppliedDrain") {
			t.Errorf("it was taken: %v", err)
		}
	})
	t.Run("each annotation has one writer", func(t *testing.T) { eachAnnotationHasOneWriter(t, p) })
	t.Run("each field that decides something is nobody's to register", func(t *testing.T) {
		for says, metadata := range map[string]map[string]any{
			"an owner":                  {"ownerReferences": []any{map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "name": "worker-9", "uid": "u"}}},
			"a finalizer":               {"finalizers": []any{"example.com/x"}},
			"no label bunsen.dev/*":     {"labels": map[string]any{"bunsen.dev/tier": "edge"}},
			"node-role.kubernetes.io/x": {"labels": map[string]any{"node-role.kubernetes.io/x": ""}},
		} {
			if err := createAs(t, p, "worker-9", metadata); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("a node registers with %v: %v", metadata, err)
			}
		}
		if err := createAs(t, p, "worker-9", map[string]any{}); err != nil {
			t.Error(err)
		}
	})
}

// createAs lets a node create its Node, as a dry run.
func createAs(t *testing.T, p plane, name string, metadata map[string]any) error {
	t.Helper()
	config := rest.CopyConfig(p.admin)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"},
	}
	metadata["name"] = name
	_, err := nodesOf(t, config).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": metadata,
	}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// eachAnnotationHasOneWriter lets a node and the controller write each annotation of the table: the node when it
// registers, when its Node has no annotations, and when it has all; the controller at any time. All writes are dry
// runs.
func eachAnnotationHasOneWriter(t *testing.T, p plane) {
	t.Helper()
	nodes := nodesOf(t, p.admin)
	all := map[string]any{}
	for _, a := range v1alpha1.NodeAnnotations() {
		all[a.Key] = "0"
	}
	for name, annotations := range map[string]map[string]any{"silent": {}, "told": all} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node",
			"metadata": map[string]any{"name": name, "annotations": annotations},
		}}
		if _, err := nodes.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	values := map[string]string{
		v1alpha1.StateAnnotation: "Done", v1alpha1.SSHAnnotation: "accessed",
		v1alpha1.PostConfigActionAnnotation: "Rebooting", v1alpha1.DesiredDrainAnnotation: "drain-a",
	}
	for _, a := range v1alpha1.NodeAnnotations() {
		value := cmp.Or(values[a.Key], "a1")
		patch := func(who rest.ImpersonationConfig, node string, value any) error {
			config := rest.CopyConfig(p.admin)
			config.Impersonate = who
			raw, err := json.Marshal(
				map[string]any{"metadata": map[string]any{"annotations": map[string]any{a.Key: value}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = nodesOf(t, config).Patch(t.Context(), node, types.MergePatchType, raw,
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		kubelet := func(node string, value any) error {
			return patch(rest.ImpersonationConfig{
				UserName: "system:node:" + node,
				Groups:   []string{"system:nodes", "system:authenticated"},
			}, node, value)
		}
		ofDaemon := a.Writer == v1alpha1.DaemonWriter
		registers := ofDaemon || a.Registers || a.Writer == v1alpha1.RegistrationWriter
		for says, c := range map[string]struct {
			err   error
			taken bool
		}{
			"a node registers with it":       {createAs(t, p, "worker-9", map[string]any{"annotations": map[string]any{a.Key: value}}), registers},
			"a node adds it to an empty one": {kubelet("silent", value), registers},
			"a node changes it":              {kubelet("told", value), ofDaemon},
			"a node removes it":              {kubelet("told", nil), ofDaemon && !a.Stays},
			"a node empties it":              {kubelet("told", ""), ofDaemon && !a.Stays && a.Key != v1alpha1.SSHAnnotation},
			"the controller changes it":      {patch(daemonAs["the controller"], "told", value), a.Writer == v1alpha1.ControllerWriter},
			"the controller removes it":      {patch(daemonAs["the controller"], "told", nil), a.Writer == v1alpha1.ControllerWriter},
			"an administrator changes it":    {patch(daemonAs["an administrator"], "told", value), true},
		} {
			if (c.err == nil) != c.taken || c.err != nil && !strings.Contains(c.err.Error(), a.Key) {
				t.Errorf("%s: %s: taken: want %t, got: %v", a.Key, says, c.taken, c.err)
			}
		}
	}
}

// whatANodeMayRead lets the daemon's own client read all that it reads, as a node, and tries for more.
func whatANodeMayRead(t *testing.T, p plane) {
	t.Helper()
	p.kubectl(t, daemonReads, "create", "-f", "-")
	config := rest.CopyConfig(p.admin)
	config.Impersonate = daemonAs["the node"]
	cluster, err := kube.New(config, "worker-0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Config(t.Context(), "rendered-infra-1"); !apierrors.IsForbidden(err) {
		t.Errorf("a node reads a config through the API server: %v", err)
	}
	if _, err := cluster.Rules(t.Context()); err != nil {
		t.Errorf("reading the disruption policy: %v", err)
	}
	rules, err := cluster.DriftRules(t.Context(), "infra")
	if err != nil || len(rules.Rules) != 1 {
		t.Errorf("reading the policy on drift of a pool that is chosen by its labels: %v, %v", rules, err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"machineconfigs", "machineconfigpools"} {
		_, err := client.Resource(schema.GroupVersionResource{
			Group: "machineconfiguration.openshift.io", Version: "v1",
			Resource: kind,
		}).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("a node lists all %s: %v", kind, err)
		}
	}
}

// daemonReads are one of each kind that a daemon reads.
const daemonReads = `{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": {"name": "rendered-infra-1"}, "spec": {"config": {"ignition": {"version": "3.5.0"}}}},
  {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "infra", "labels": {"tier": "infra"}}, "spec": {}},
  {"apiVersion": "bunsen.dev/v1alpha1", "kind": "DriftPolicy", "metadata": {"name": "infra"}, "spec": {"machineConfigPoolSelector": {"matchLabels": {"tier": "infra"}}, "rules": [{"path": "/etc/motd", "action": "Ignore"}]}}]}`

func nodesOf(t *testing.T, config *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
}

// awaitPolicy waits until the API server has taken the policy up.
func awaitPolicy(t *testing.T, nodes dynamic.ResourceInterface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := nodes.Patch(ctx, "worker-0", types.StrategicMergePatchType,
			[]byte(`{"metadata":{"annotations":{"bunsen.dev/probe":"x"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "bunsen.dev/probe") {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the policy does not act: %v", err)
		case <-again.C:
		}
	}
}

// plane is a real API server with config/ applied.
type plane struct {
	env                *envtest.Environment
	admin              *rest.Config
	assets, kubeconfig string
}

// controlPlane starts a real API server with config/ applied as README.md says, and rights as on a real cluster.
func controlPlane(tb testing.TB) plane {
	tb.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		tb.Fatal(err)
	}
	p := plane{assets: os.Getenv("KUBEBUILDER_ASSETS"), kubeconfig: filepath.Join(tb.TempDir(), "kubeconfig")}
	if p.assets == "" {
		p.assets = filepath.Join(root, "bin", "assets")
	}
	if _, err := os.Stat(filepath.Join(p.assets, "kube-apiserver")); err != nil {
		tb.Fatalf("there is no kube-apiserver to test against: %v; make assets builds one", err)
	}
	no := false
	p.env = &envtest.Environment{
		BinaryAssetsDirectory: p.assets, UseExistingCluster: &no,
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	p.env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node,RBAC").
		Append("enable-admission-plugins", "NodeRestriction")
	if _, err := p.env.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.env.Stop(); err != nil {
			tb.Log(err)
		}
	})
	p.admin = p.identity(tb, p.kubeconfig, envtest.User{Name: "admin", Groups: []string{"system:masters"}})
	p.kubectl(tb, "", "apply", "-k", filepath.Join(root, "config"))
	p.kubectl(tb, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
	return p
}

// identity writes the kubeconfig of a user.
func (p plane) identity(tb testing.TB, file string, who envtest.User) *rest.Config {
	tb.Helper()
	user, err := p.env.AddUser(who, nil)
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := user.KubeConfig()
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		tb.Fatal(err)
	}
	return user.Config()
}

func (p plane) kubectl(tb testing.TB, stdin string, args ...string) {
	tb.Helper()
	cmd := exec.Command(filepath.Join(p.assets, "kubectl"), append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
}
