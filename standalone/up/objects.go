package up

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

// simulatedLabel marks the Node objects of simulated hosts.
const simulatedLabel = "bunsen.dev/simulated"

// object is a Kubernetes object for kubectl.
type object struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   objectMeta     `json:"metadata"`
	Spec       map[string]any `json:"spec,omitempty"`
}

type objectMeta struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

// applier applies objects as administrator.
type applier struct {
	o   options
	dir plane.Dir
}

// config applies CRDs and RBAC, and waits until the API server serves the CRDs.
func (a applier) config(ctx context.Context) (string, error) {
	if err := a.kubectl(ctx, nil, "apply", "--server-side", "--force-conflicts", "-k", a.o.config); err != nil {
		return "", err
	}
	return "", a.kubectl(ctx, nil, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
}

// objects applies the GitSource and the Node objects of hosts, and removes the Node objects of hosts that are no longer
// simulated.
func (a applier) objects(ctx context.Context) (string, error) {
	items := []object{
		{APIVersion: "v1", Kind: "Namespace", Metadata: objectMeta{Name: namespace}},
		{APIVersion: "bunsen.dev/v1alpha1", Kind: "GitSource", Metadata: objectMeta{Name: "config"}, Spec: a.sourceSpec()},
	}
	for _, name := range a.o.hostNames() {
		items = append(items, node(name))
	}
	manifest, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		return "", fmt.Errorf("encoding the objects: %w", err)
	}
	if err := a.kubectl(ctx, manifest, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return "", err
	}
	gone, err := a.formerHosts()
	if err != nil || len(gone) == 0 {
		return "", err
	}
	return "without " + strings.Join(gone, ", "),
		a.kubectl(ctx, nil, append([]string{"delete", "node", "--ignore-not-found", "--wait=false"}, gone...)...)
}

// interval returns the interval at which the controller checks the repository. It is short for a repository on this
// host, because this check is cheap and a user is waiting.
func interval(o options) string {
	if o.source.repo == "" {
		return "5s"
	}
	return "15s"
}

func (a applier) sourceSpec() map[string]any {
	spec := map[string]any{"url": repository(a.o, a.dir), "interval": interval(a.o)}
	if a.o.source.path != "" {
		spec["path"] = a.o.source.path
	}
	if a.o.source.ref != "" {
		spec["ref"] = map[string]any{"branch": a.o.source.ref}
	}
	return spec
}

// repository returns the URL or the path of the repository that Bunsen follows.
func repository(o options, dir plane.Dir) string {
	if o.source.repo != "" {
		return o.source.repo
	}
	return dir.Repository()
}

// node returns the Node of a worker as kubeadm registers it, without a role label.
func node(name string) object {
	return object{APIVersion: "v1", Kind: "Node", Metadata: objectMeta{Name: name, Labels: map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": runtime.GOARCH,
		simulatedLabel: "true",
	}}}
}

// formerHosts returns hosts that have a folder from an earlier run with more hosts. formerHosts does not remove these
// folders.
func (a applier) formerHosts() ([]string, error) {
	entries, err := os.ReadDir(a.dir.Hosts())
	if err != nil {
		return nil, fmt.Errorf("listing the hosts: %w", err)
	}
	var gone []string
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(a.o.hostNames(), e.Name()) {
			gone = append(gone, e.Name())
		}
	}
	return gone, nil
}

// kubectl runs the kubectl in this executable as administrator.
func (a applier) kubectl(ctx context.Context, stdin []byte, args ...string) error {
	cmd := exec.CommandContext(ctx, a.o.self, append([]string{
		"kubectl", "--kubeconfig=" + a.dir.Kubeconfig(), "--cache-dir=" + filepath.Join(string(a.dir), "cache"),
	}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	// Only the context ends kubectl, and not Ctrl-C in the terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("running kubectl %s: %w:\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
