package e2e

import (
	"encoding/json"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// manifest is a Kubernetes object on its way to kubectl.
type manifest struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   manifestMeta      `json:"metadata"`
	Spec       map[string]any    `json:"spec,omitempty"`
	StringData map[string]string `json:"stringData,omitempty"`
}

type manifestMeta struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// machines NODE... makes workers as kubeadm registers them, starts their hosts and waits until they are Ready.
func (s *story) machines(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("machines NODE...")
	}
	var nodes []manifest
	for _, name := range args {
		nodes = append(nodes, manifest{APIVersion: "v1", Kind: "Node", Metadata: manifestMeta{
			Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
		}})
	}
	if err := s.kubectlApply(nodes); err != nil {
		return err
	}
	for _, name := range args {
		if err := s.host(ts, []string{name}); err != nil {
			return err
		}
	}
	for _, name := range args {
		// The daemon's first word is that it is there; the kubelet's, that the machine is.
		for _, wait := range [][]string{{"condition:Ready", "True .*"}, {"annotation:state", "Done"}} {
			if err := s.waitfor(ts, append([]string{"node/" + name}, wait...)); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow NAME makes the GitSource NAME for the repository that gitrepo serves, with its Secret. Looks are asked for.
func (s *story) follow(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("follow NAME, after gitrepo NAME")
	}
	return s.kubectlApply([]manifest{
		{
			APIVersion: "v1", Kind: "Secret", Metadata: manifestMeta{Name: "git-password", Namespace: "bunsen-sources"},
			StringData: map[string]string{"hosts": ts.Getenv("GITHOST"), "username": gitUser, "password": gitPassword},
		},
		{
			APIVersion: "bunsen.dev/v1alpha1", Kind: "GitSource", Metadata: manifestMeta{Name: args[0]},
			Spec: map[string]any{
				"url": ts.Getenv("URL"), "interval": "1h",
				"secretRef": map[string]any{"name": "git-password"},
			},
		},
	})
}

func (s *story) kubectlApply(items []manifest) error {
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		return err
	}
	return s.cluster.run(append(os.Environ(), "KUBECONFIG="+s.cluster.dir+"/admin.kubeconfig", "KUBECACHEDIR="+
		s.cluster.dir+"/.kube"),
		raw, "apply", "--server-side", "-f", "-")
}

// rendered POOL VAR waits until the pool is rendered from the commit pushed last, and puts its config's name into VAR.
func (s *story) rendered(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("rendered POOL VAR")
	}
	if err := s.waitfor(ts, []string{"mcp/" + args[0], "annotation:revision", "main@sha1:" +
		ts.Getenv("HEAD")}); err != nil {
		return err
	}
	return s.let(ts, []string{args[1], "mcp/" + args[0], "{.spec.configuration.name}"})
}

// updated POOL CONFIG waits until every node of the pool runs the config and is back in service.
func (s *story) updated(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("updated POOL CONFIG")
	}
	return s.waitObject("mcp/"+args[0], func(u *unstructured.Unstructured) (bool, string, error) {
		value, err := field(u, "{.spec.configuration.name} {.status.configuration.name} "+
			"{.status.conditions[?(@.type==\"Updated\")].status} {.status.machineCount}={.status.readyMachineCount}")
		if err != nil || u == nil {
			return false, value, err
		}
		machines, _, err := unstructured.NestedInt64(u.Object, "status", "machineCount")
		ready, _, err2 := unstructured.NestedInt64(u.Object, "status", "readyMachineCount")
		if err != nil || err2 != nil {
			return false, value, err
		}
		in, _, _ := unstructured.NestedString(u.Object, "status", "configuration", "name")
		done, _ := field(u, "condition:Updated")
		return in == args[1] && machines > 0 && machines == ready && len(done) > 4 && done[:4] == "True", value, nil
	})
}
