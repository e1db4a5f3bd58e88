package linux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

const (
	// pullLimit is how long one pull may take.
	pullLimit = 30 * time.Minute
	// maxOutput is how much a program may print. The list of all images of a machine has less.
	maxOutput = 16 << 20
)

// programDirs are where machines have crictl and ctr, in this order.
var programDirs = []string{"/usr/bin", "/usr/local/bin", "/opt/bin", "/usr/sbin"}

// Runtime is the container runtime of a machine.
type Runtime struct {
	// Root has the machine's files, and Dir is where its root is mounted.
	Root *files.Root
	Dir  string
	// Units reload CRI-O.
	Units host.Units
	// Lock gives the machine's files and units to the caller alone, and returns the function that ends this.
	Lock func() (unlock func())
	// Simulated is true on a host whose programs run outside of its root, with the rights of the caller.
	Simulated bool
}

// HasCrictl reports whether the machine has crictl.
func (r *Runtime) HasCrictl() bool { return r.program("crictl").Path != "" }

// program finds a program of the machine; its path is empty if there is none.
func (r *Runtime) program(name string) machine.Program {
	p := machine.Program{Root: filepath.Clean(r.Dir), MaxOutput: maxOutput}
	for _, dir := range programDirs {
		if machine.Exists(r.Root, path.Join(dir, name)) {
			p.Path = path.Join(dir, name)
			break
		}
	}
	if r.Simulated && p.Path != "" {
		p.Path, p.Root = filepath.Join(r.Dir, p.Path), "/"
	}
	return p
}

// crictl runs crictl with the machine's runtime.
func (r *Runtime) crictl(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	at, p, err := r.find()
	if err != nil {
		return nil, err
	}
	out, err := p.Run(ctx, limit, append([]string{"--runtime-endpoint", "unix://" + at.socket}, args...)...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// find finds the runtime and crictl.
func (r *Runtime) find() (endpoint, machine.Program, error) {
	defer r.Lock()()
	at, err := r.endpoint()
	if err != nil {
		return endpoint{}, machine.Program{}, err
	}
	p := r.program("crictl")
	if p.Path == "" {
		return at, p, errors.New("the machine has no program crictl, so its daemon cannot pull images: install " +
			"crictl in one of " + strings.Join(programDirs, ", "))
	}
	return at, p, nil
}

// list is what `crictl images --output json` prints.
type list struct {
	Images []struct {
		RepoDigests []string `json:"repoDigests"`
	} `json:"images"`
}

// Present implements images.Runtime. An image that is not in the list may be there under another name, so Present asks
// for it.
func (r *Runtime) Present(ctx context.Context, images []string) (map[string]bool, error) {
	out, err := r.crictl(ctx, machine.LookLimit, "images", "--output", "json")
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	var all list
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("listing images: crictl printed no list: %w", err)
	}
	listed, has := map[string]bool{}, map[string]bool{}
	for _, i := range all.Images {
		for _, name := range i.RepoDigests {
			listed[name] = true
		}
	}
	for _, image := range images {
		if has[image] = listed[image]; has[image] {
			continue
		}
		_, err := r.crictl(ctx, machine.LookLimit, "inspecti", "--output", "json", image)
		var failed *machine.Failure
		switch {
		case err == nil:
			has[image] = true
		case errors.As(err, &failed) && strings.Contains(failed.Said, "no such image"):
		default:
			return nil, fmt.Errorf("looking for %s: %w", image, err)
		}
	}
	return has, nil
}

// Pull implements images.Runtime.
func (r *Runtime) Pull(ctx context.Context, image string) error {
	if err := r.forget(ctx, image); err != nil {
		return err
	}
	if _, err := r.crictl(ctx, pullLimit, "pull", image); err != nil {
		return withoutLog(err)
	}
	return nil
}

// withoutLog returns the message with which crictl ends, without the warnings and the log that it prints before.
func withoutLog(err error) error {
	var failed *machine.Failure
	if !errors.As(err, &failed) {
		return err
	}
	_, last, found := strings.Cut(failed.Said, "level=fatal msg=")
	quoted, bad := strconv.QuotedPrefix(last)
	message, worse := strconv.Unquote(quoted)
	if !found || bad != nil || worse != nil {
		return err
	}
	return fmt.Errorf("crictl: %s", message)
}

// Space implements images.Runtime.
func (r *Runtime) Space() (free, total int64, err error) {
	defer r.Lock()()
	images := "/var/lib/containerd"
	switch at, err := r.endpoint(); {
	case err == nil && at.crio:
		images = "/var/lib/containers/storage"
	case err == nil && strings.HasPrefix(at.socket, "/run/k3s/"): // also RKE2
		images = "/var/lib/rancher"
	}
	for _, dir := range []string{images, "/var/lib", "/"} {
		if dir == "/" || machine.Exists(r.Root, dir) {
			return r.Root.Space(dir)
		}
	}
	return 0, 0, nil
}

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
