package linux

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// endpoint is the socket of a container runtime.
type endpoint struct {
	socket string
	crio   bool
}

// settings are the files of a machine that name its runtime: those of the kubelet first.
var settings = []struct {
	path string
	name *regexp.Regexp
}{
	{"/var/lib/kubelet/config.yaml", kubeletSetting},
	{"/etc/kubernetes/kubelet.conf", kubeletSetting},
	{"/var/lib/kubelet/kubeadm-flags.env", regexp.MustCompile(`--container-runtime-endpoint[= ]"?([^"\s]+)`)},
	{"/etc/crictl.yaml", regexp.MustCompile(`(?m)^runtime-endpoint:\s*["']?([^"'\s]+)`)},
}

var (
	kubeletSetting = regexp.MustCompile(`(?m)(?:^|[{,])\s*"?containerRuntimeEndpoint"?\s*:\s*["']?([^"'\s,]+)`)
	socketPath     = regexp.MustCompile(`^/[A-Za-z0-9/._-]+$`)
)

// sockets are the usual places of sockets, for machines whose files name none.
var sockets = []string{"/run/crio/crio.sock", "/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock"}

// endpoint returns the runtime that the kubelet uses.
func (r *Runtime) endpoint() (endpoint, error) {
	for _, s := range settings {
		text, err := r.Root.Read(s.path)
		if err != nil { // A file that is not there, or cannot be read, names no runtime.
			continue
		}
		if m := s.name.FindSubmatch(text); m != nil {
			return parseEndpoint(string(m[1]), s.path)
		}
	}
	for _, socket := range sockets {
		if machine.Exists(r.Root, socket) {
			return parseEndpoint(socket, socket)
		}
	}
	return endpoint{}, errors.New("the machine has neither CRI-O nor containerd, so its daemon cannot pull images: " +
		"install one of both, or remove the PinnedImageSets from the node's pool")
}

// parseEndpoint reads an endpoint of a file. A name that no runtime has could be an option of crictl.
func parseEndpoint(text, from string) (endpoint, error) {
	socket := path.Clean(strings.TrimPrefix(text, "unix://"))
	at := endpoint{socket: socket, crio: strings.Contains(path.Base(socket), "crio")}
	switch {
	case !socketPath.MatchString(socket):
		return endpoint{}, fmt.Errorf("%s names the container runtime %q, which is no socket", from, text)
	case !at.crio && !strings.Contains(path.Base(socket), "containerd"):
		return endpoint{}, fmt.Errorf("%s names the container runtime %s, which is neither CRI-O nor containerd, so "+
			"the daemon cannot pin images", from, socket)
	}
	return at, nil
}
