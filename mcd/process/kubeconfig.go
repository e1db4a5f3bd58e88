package process

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bunsen-os/bunsen/internal/distribution"
)

// kubeletKubeconfigs returns the paths of the kubelet's kubeconfig in distributions of Kubernetes.
func kubeletKubeconfigs() (out []string) {
	for _, k := range distribution.Distributions() {
		out = append(out, k.Kubeconfigs...)
	}
	return out
}

// KubeconfigHelp lists the paths of the kubelet's kubeconfig files for --help.
func KubeconfigHelp() string {
	var b strings.Builder
	for _, k := range distribution.Distributions() {
		for _, path := range k.Kubeconfigs {
			fmt.Fprintf(&b, "  %-56s %s\n", path, k.Name)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// readKubeconfig reads the kubeconfig at a path. For an empty path, readKubeconfig reads the first kubeconfig of the
// kubelet that exists. A distribution may write its file after the daemon started, so callers read it again for each
// connection.
func readKubeconfig(path string, load func(path string) (*rest.Config, error)) (*rest.Config, error) {
	if path != "" {
		config, err := load(path)
		if err != nil {
			return nil, fmt.Errorf("reading kubeconfig %q: %w; name one with --kubeconfig", path, err)
		}
		return config, nil
	}
	var broken []error
	for _, path := range kubeletKubeconfigs() {
		config, err := load(path)
		switch {
		case err == nil:
			return config, nil
		case !errors.Is(err, fs.ErrNotExist):
			broken = append(broken, fmt.Errorf("reading kubeconfig %q: %w", path, err))
		}
	}
	if len(broken) > 0 {
		return nil, fmt.Errorf("finding the kubelet's kubeconfig: %w; name one with --kubeconfig",
			errors.Join(broken...))
	}
	return nil, errors.New("finding the kubelet's kubeconfig: none of the paths in `machine-config-daemon start " +
		"--help` exists; the kubelet writes it when it joins a cluster; name another path with --kubeconfig")
}

// loadKubeconfig reads one kubeconfig. A file that names no API server is an error, because clientcmd would then use
// the service account of a pod.
func loadKubeconfig(path string) (*rest.Config, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
}
