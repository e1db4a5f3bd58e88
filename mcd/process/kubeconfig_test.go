package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

const validKubeconfig = `apiVersion: v1
kind: Config
clusters:
  - name: c
    cluster: {server: "https://HOST:6443"}
users:
  - name: u
    user: {token: abc}
contexts:
  - name: x
    context: {cluster: c, user: u}
current-context: x
`

// openShiftKubeletConf is what OpenShift has where kubeadm has the kubeconfig.
const openShiftKubeletConf = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 250
`

func TestTheKubeletsKubeconfigIsFound(t *testing.T) {
	from := func(host string) string { return strings.Replace(validKubeconfig, "HOST", host, 1) }
	for name, tc := range map[string]struct {
		files       map[string]string
		path        string
		host, fails string
	}{
		"kubeadm":                     {files: map[string]string{"/etc/kubernetes/kubelet.conf": from("kubeadm")}, host: "https://kubeadm:6443"},
		"OpenShift":                   {files: map[string]string{"/etc/kubernetes/kubelet.conf": openShiftKubeletConf, "/var/lib/kubelet/kubeconfig": from("openshift")}, host: "https://openshift:6443"},
		"k3s":                         {files: map[string]string{"/var/lib/rancher/k3s/agent/kubelet.kubeconfig": from("k3s")}, host: "https://k3s:6443"},
		"RKE2":                        {files: map[string]string{"/var/lib/rancher/rke2/agent/kubelet.kubeconfig": from("rke2")}, host: "https://rke2:6443"},
		"MicroK8s":                    {files: map[string]string{"/var/snap/microk8s/current/credentials/kubelet.config": from("microk8s")}, host: "https://microk8s:6443"},
		"k0s":                         {files: map[string]string{"/var/lib/k0s/kubelet.conf": from("k0s")}, host: "https://k0s:6443"},
		"the flag comes first":        {files: map[string]string{"/etc/kubernetes/kubelet.conf": from("kubeadm"), "/else": from("else")}, path: "/else", host: "https://else:6443"},
		"a file of the flag is gone":  {files: map[string]string{"/etc/kubernetes/kubelet.conf": from("kubeadm")}, path: "/else", fails: `reading kubeconfig "/else"`},
		"a broken file is passed by":  {files: map[string]string{"/var/lib/kubelet/kubeconfig": "]", "/etc/kubernetes/kubelet.conf": from("kubeadm")}, host: "https://kubeadm:6443"},
		"only a broken file is named": {files: map[string]string{"/etc/kubernetes/kubelet.conf": openShiftKubeletConf}, fails: `reading kubeconfig "/etc/kubernetes/kubelet.conf"`},
		"an empty file is no config":  {files: map[string]string{"/etc/kubernetes/kubelet.conf": ""}, fails: `reading kubeconfig "/etc/kubernetes/kubelet.conf"`},
		"none":                        {fails: "the kubelet writes it when it joins a cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, content := range tc.files {
				at := filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			config, err := readKubeconfig(tc.path, func(path string) (*rest.Config, error) {
				return loadKubeconfig(filepath.Join(root, path))
			})
			switch {
			case tc.fails != "":
				if err == nil || !strings.Contains(err.Error(), tc.fails) ||
					!strings.Contains(err.Error(), "--kubeconfig") {
					t.Errorf("the error is %v, want one with %q", err, tc.fails)
				}
			case err != nil:
				t.Error(err)
			case config.Host != tc.host:
				t.Errorf("the API server is %s, want %s", config.Host, tc.host)
			}
		})
	}
}
