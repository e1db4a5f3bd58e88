package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// cluster is a real etcd and kube-apiserver. No controller-manager runs: what a kubelet or a controller of Kubernetes
// would do is done by our simulated hosts, or by the story.
type cluster struct {
	plane   *plane
	env     *envtest.Environment
	dir     string
	kubectl string
	config  string
	dynamic dynamic.Interface
	clients kubernetes.Interface
}

// startCluster gives a story a control plane for itself, with Bunsen installed and the administrator's kubeconfig in
// dir.
func startCluster(p parts, dir string) (*cluster, error) {
	plane, err := shared.take(p)
	if err != nil {
		return nil, err
	}
	c, err := plane.cluster(p, dir)
	if err != nil {
		shared.giveBack(plane)
	}
	return c, err
}

// cluster returns the control plane with the administrator's clients, and with a kubeconfig in dir.
func (p *plane) cluster(parts parts, dir string) (*cluster, error) {
	c := &cluster{
		plane: p, env: p.env, dir: dir, kubectl: filepath.Join(parts.assets, "kubectl"),
		config: filepath.Join(parts.root, "config"),
	}
	own := rest.CopyConfig(p.env.Config)
	own.QPS, own.Burst = 200, 400
	var err error
	if c.dynamic, err = dynamic.NewForConfig(own); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.clients, err = kubernetes.NewForConfig(own); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	_, err = c.identity("admin", envtest.User{Name: "admin", Groups: []string{"system:masters"}})
	return c, err
}

// identity writes <name>.kubeconfig for a user, once.
func (c *cluster) identity(name string, user envtest.User) (string, error) {
	path := filepath.Join(c.dir, name+".kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	who, err := c.env.AddUser(user, nil)
	if err != nil {
		return "", fmt.Errorf("making the user %s: %w", user.Name, err)
	}
	raw, err := who.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", user.Name, err)
	}
	return path, os.WriteFile(path, raw, 0o600)
}

// serviceAccount is the user that a pod of that service account would be.
func serviceAccount(name string) envtest.User {
	return envtest.User{
		Name:   "system:serviceaccount:bunsen-system:" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:bunsen-system"},
	}
}

// kubelet is the user that a node's kubelet is, and its daemon with it.
func kubelet(node string) envtest.User {
	return envtest.User{Name: "system:node:" + node, Groups: []string{"system:nodes"}}
}

// readConfigs lets nodes read configs through the API server: most stories run no machine-config-server.
const readConfigs = "components/nodes-read-configs"

// install does what README.md tells an administrator to do.
func (c *cluster) install(env []string) error {
	for _, part := range []string{"", readConfigs} {
		if err := c.run(env, nil, "apply", "-k", filepath.Join(c.config, part)); err != nil {
			return err
		}
	}
	return c.run(env, nil, "wait", "--for=condition=Established", "crd", "--all", "--timeout=4m")
}

// run is kubectl.
func (c *cluster) run(env []string, stdin []byte, args ...string) error {
	cmd := exec.Command(c.kubectl, args...)
	cmd.Env, cmd.Stdin = env, bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %q: %w\n%s", args, err, out)
	}
	return nil
}

func (c *cluster) stop() {
	if c != nil {
		shared.giveBack(c.plane)
	}
}

// apply FILE... applies files with the story's variables filled in.
func (s *story) apply(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("apply FILE...")
	}
	for _, file := range args {
		text := os.Expand(ts.ReadFile(file), ts.Getenv)
		filled := ts.MkAbs(file) + ".applied"
		if err := os.WriteFile(filled, []byte(text), 0o600); err != nil {
			return err
		}
		if err := ts.Exec("kubectl", "apply", "--server-side", "-f", filled); err != nil {
			return fmt.Errorf("applying %s: %w", file, err)
		}
	}
	return nil
}
