package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/process"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// whichNodeTheDaemonIs has Nodes whose names are not the host's.
func whichNodeTheDaemonIs(t *testing.T, p plane) {
	t.Helper()
	const name = "node-a.example.com"
	for _, n := range []string{name, "node-b.example.com"} {
		if _, err := nodesOf(t, p.admin).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": n},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(t.TempDir(), "kubelet.conf")
	as := func(node string) {
		p.identity(t, at, envtest.User{Name: "system:node:" + node, Groups: []string{"system:nodes"}})
	}
	connect := func(said string) *kube.Connection {
		o := process.Options{Node: said, Kubeconfig: at}
		return kube.NewConnection(o.Node, o.Connect)
	}
	is := func(t *testing.T, cluster *kube.Connection, want string) {
		t.Helper()
		if _, err := cluster.Node(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err := cluster.Name(); err != nil || got != want {
			t.Errorf("it is %s, %v; want %s", got, err, want)
		}
	}
	fails := func(t *testing.T, cluster *kube.Connection, kind any, want string) {
		t.Helper()
		_, err := cluster.Node(t.Context())
		if err == nil || !errors.As(err, kind) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "does not answer") {
			t.Errorf("the error is %T: %v", err, err)
		}
	}
	t.Run("a kubeconfig that comes after the boot is found", func(t *testing.T) {
		cluster := connect("")
		fails(t, cluster, new(*report.NotConnectedError), "reading kubeconfig")
		as(name)
		is(t, cluster, name)
	})
	t.Run("the name is that of the certificate, also where the host is called otherwise", func(t *testing.T) {
		as(name)
		is(t, connect(""), name)
	})
	t.Run("a host name in upper case confirms it", func(t *testing.T) { is(t, connect(strings.ToUpper(name)), name) })
	t.Run("a flag with another name is told, and nothing is asked as another", func(t *testing.T) {
		fails(t, connect("vm"), new(*report.NotConnectedError), "this kubelet is "+name+", --node-name says vm")
	})
	t.Run("a new certificate of the same name changes nothing", func(t *testing.T) {
		cluster := connect("")
		is(t, cluster, name)
		as(name)
		is(t, cluster, name)
	})
	t.Run("a machine that joined as localhost gets its name", func(t *testing.T) {
		as("localhost")
		cluster := connect("")
		if _, err := cluster.Node(t.Context()); err == nil {
			t.Error("there is a Node localhost")
		}
		as("node-b.example.com")
		_, _ = cluster.Node(t.Context())
		is(t, cluster, "node-b.example.com")
	})
	t.Run("a token says to which node it is bound", func(t *testing.T) {
		token(t, p, at, name)
		fails(t, connect(""), new(*report.AnswerError), "answered 403: ")
		if got, err := connect("").Name(); err != nil || got != name {
			t.Errorf("it is %s, %v", got, err)
		}
		fails(t, connect("vm"), new(*report.NotConnectedError), "bound to node "+name)
	})
	t.Run("an unbound token leaves the name to the flag", func(t *testing.T) {
		token(t, p, at, "")
		if got, err := connect("vm").Name(); err != nil || got != "vm" {
			t.Errorf("it is %s, %v", got, err)
		}
		fails(t, connect("vm"), new(*report.AnswerError), "config/rbac")
		fails(t, connect(""), new(*report.NotConnectedError), "which is no node")
	})
}

// token writes a kubeconfig with a token of a service account, which may be bound to a node.
func token(t *testing.T, p plane, at, node string) {
	t.Helper()
	client, err := dynamic.NewForConfig(p.admin)
	if err != nil {
		t.Fatal(err)
	}
	spec := map[string]any{}
	if node != "" {
		spec["boundObjectRef"] = map[string]any{"kind": "Node", "apiVersion": "v1", "name": node}
	}
	accounts := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).
		Namespace("default")
	_, err = accounts.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "a" + node},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := accounts.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"metadata": map[string]any{"name": "a" + node}, "spec": spec,
	}}, metav1.CreateOptions{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := unstructured.NestedString(answer.Object, "status", "token")
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server: p.admin.Host, CertificateAuthorityData: p.admin.CAData,
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: text}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, at); err != nil {
		t.Fatal(err)
	}
}
