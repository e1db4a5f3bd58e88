package kube

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcd/report"
)

// TestTheCredentialsNameTheNode: --node-name only confirms the name.
func TestTheCredentialsNameTheNode(t *testing.T) {
	for sentence, c := range map[string]struct {
		who               identity
		said, want, fails string
	}{
		"a kubelet's certificate has the name":            {identity{user: "system:node:node-a.example.com"}, "", "node-a.example.com", ""},
		"the flag may confirm it":                         {identity{user: "system:node:a"}, "a", "a", ""},
		"a host name in upper case confirms it too":       {identity{user: "system:node:node-a"}, "NODE-A", "node-a", ""},
		"the flag does not change it":                     {identity{user: "system:node:node-a.example.com"}, "vm", "", "this kubelet is node-a.example.com, --node-name says vm"},
		"an account's token is bound to a node":           {identity{user: "system:serviceaccount:a:b", node: "a"}, "", "a", ""},
		"the flag does not change what it is bound to":    {identity{user: "system:serviceaccount:a:b", node: "a"}, "b", "", "bound to node a, --node-name says b"},
		"with an unbound token, the flag has the name":    {identity{user: "system:serviceaccount:a:b"}, "a", "a", ""},
		"without the flag, no name is guessed":            {identity{user: "kubernetes-admin"}, "", "", `the credentials of "kubernetes-admin", which is no node`},
		"where nobody says who it is, the flag has it":    {identity{}, "a", "a", ""},
		"where nobody says anything, it is asked for":     {identity{}, "", "", "name the Node with --node-name"},
		"a kubelet that has not joined yet has no name":   {identity{user: "system:bootstrap:abcdef"}, "", "", "which is no node"},
		"a user whose name only resembles that of a node": {identity{user: "system:nodes:a"}, "b", "b", ""},
	} {
		got, err := c.who.nodeName(c.said)
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: it is %q, %v", sentence, got, err)
		}
	}
}

// TestAMachineThatWasLocalhostFindsItsNode has a kubelet that gets a certificate for another name while the daemon
// runs.
func TestAMachineThatWasLocalhostFindsItsNode(t *testing.T) {
	r := newServerRig(t)
	config, err := r.cluster.loadConfig()
	if err != nil {
		t.Fatal(err)
	}
	cluster := NewConnection("", func() (*rest.Config, error) { return config, nil })
	for _, name := range []string{"localhost", "node-a.example.com", "node-a.example.com"} {
		r.renew("system:node:" + name)
		r.forbidden["nodes"] = true
		if _, err := cluster.Node(t.Context()); err == nil || !strings.Contains(err.Error(), "answered 403: no") {
			t.Errorf("%s: %v", name, err)
		}
		r.forbidden["nodes"] = false
		if _, err := cluster.Node(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := cluster.Name(); err != nil || got != name {
			t.Errorf("it is %s, %v; want %s", got, err, name)
		}
	}
}

func TestWithoutACertificateThereIsNoConnection(t *testing.T) {
	cluster := NewConnection("a", func() (*rest.Config, error) {
		config := &rest.Config{Host: "https://127.0.0.1:1"}
		config.CertFile = filepath.Join(t.TempDir(), "none")
		return config, nil
	})
	_, err := cluster.Node(t.Context())
	if !errors.As(err, new(*report.NotConnectedError)) || !errors.Is(err, report.ErrUnreachable) ||
		strings.Contains(err.Error(), "does not answer") {
		t.Error(err)
	}
}
