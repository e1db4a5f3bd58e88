package plane

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Files are the flags of a program that starts a control plane.
type Files struct {
	// Root is the folder of the checkout, with config/crd.
	Root string
	// Assets is the folder with etcd and kube-apiserver.
	Assets string
	// Controller is the controller's binary; empty: StartController builds it.
	Controller string
}

// Flags adds the flags.
func (f *Files) Flags(set *flag.FlagSet) {
	set.StringVar(&f.Root, "root", ".", "folder of the checkout, with config/crd")
	set.StringVar(&f.Assets, "assets", "", "folder with etcd and kube-apiserver; empty: KUBEBUILDER_ASSETS, or "+
		"bin/assets of the checkout")
	set.StringVar(&f.Controller, "controller", "", "the controller's binary; empty: that of BUNSEN_BIN, or built "+
		"from the checkout")
}

// Complete sets what the flags left empty. It returns an error if there is no API server.
func (f *Files) Complete() error {
	f.Assets = cmp.Or(f.Assets, os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(f.Root, "bin", "assets"))
	if dir := os.Getenv("BUNSEN_BIN"); f.Controller == "" && dir != "" {
		f.Controller = filepath.Join(dir, "machine-config-controller")
	}
	if _, err := os.Stat(filepath.Join(f.Assets, "kube-apiserver")); err != nil {
		return fmt.Errorf("looking for kube-apiserver: %w; make assets builds it, or name its folder with -assets", err)
	}
	return nil
}

// Plane is a real control plane: etcd, and kube-apiserver with an audit log of the controller's requests.
type Plane struct {
	// Admin connects as an administrator, without a limit of requests.
	Admin *rest.Config

	files Files
	env   *envtest.Environment
	audit string
	dir   string
}

// User is the controller's user name.
const User = "machine-config-controller"

// MetadataOnly is an audit policy with one line for each request of the controller.
const MetadataOnly = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [` + User + `]}
- {level: None}
`

// Start starts a control plane with its files in a directory. The audit policy says what Requests returns.
func Start(f Files, dir, auditPolicy string) (*Plane, error) {
	log.SetLogger(logr.Discard()) // else the library prints the stack of its first log line
	p := &Plane{files: f, dir: dir, audit: filepath.Join(dir, "audit.log")}
	policy := filepath.Join(dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	no := false
	p.env = &envtest.Environment{
		BinaryAssetsDirectory: f.Assets, UseExistingCluster: &no,
		CRDDirectoryPaths: []string{filepath.Join(f.Root, "config", "crd")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	p.env.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).Set("audit-log-path", p.audit).Set("audit-log-maxsize", "8000")
	var err error
	if p.Admin, err = p.env.Start(); err != nil {
		return nil, fmt.Errorf("starting etcd and kube-apiserver: %w", err)
	}
	p.Admin.QPS, p.Admin.Burst = -1, -1
	return p, nil
}

// Stop stops the control plane.
func (p *Plane) Stop() error { return p.env.Stop() }

// kubeconfig writes the kubeconfig of the controller.
func (p *Plane) kubeconfig() (string, error) {
	user, err := p.env.AddUser(envtest.User{Name: User, Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return "", fmt.Errorf("making a user for the controller: %w", err)
	}
	text, err := user.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("making its kubeconfig: %w", err)
	}
	file := filepath.Join(p.dir, "kubeconfig")
	return file, os.WriteFile(file, text, 0o600)
}

// Request is a line of the audit log.
type Request struct {
	Verb      string `json:"verb"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject json.RawMessage `json:"requestObject"`
}

// String returns the kind of request, such as "patch gitsources/status".
func (r Request) String() string {
	what := r.Verb + " " + r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		what += "/" + r.ObjectRef.Subresource
	}
	return what
}

// IsWrite reports whether the request asked for a change.
func (r Request) IsWrite() bool {
	return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch"
}

// Requests calls a function for each of the controller's requests, from an offset in the audit log. It returns the
// offset of the log's end.
func (p *Plane) Requests(from int64, each func(Request)) (int64, error) {
	f, err := os.Open(p.audit)
	if err != nil {
		return from, fmt.Errorf("reading the audit log: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if _, err := f.Seek(from, 0); err != nil {
		return from, fmt.Errorf("reading the audit log: %w", err)
	}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return from, nil // the end, or an incomplete line
		}
		from += int64(len(line))
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			return from, fmt.Errorf("reading the audit log: %w", err)
		}
		each(r)
	}
}

// StorageSize returns the size of etcd's database in bytes, as the API server reports it.
func (p *Plane) StorageSize(ctx context.Context) (int64, error) {
	return p.metric(ctx, "apiserver_storage_size_bytes")
}

// Memory returns the resident memory of the API server in bytes.
func (p *Plane) Memory(ctx context.Context) (int64, error) {
	return p.metric(ctx, "process_resident_memory_bytes")
}

// metric reads a metric of the API server.
func (p *Plane) metric(ctx context.Context, wanted string) (int64, error) {
	c, err := rest.HTTPClientFor(p.Admin)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.Admin.Host, "/")+"/metrics",
		nil)
	if err != nil {
		return 0, err
	}
	answer, err := c.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), " "); strings.HasPrefix(name, wanted) {
			size, err := strconv.ParseFloat(value, 64)
			return int64(size), err
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("reading the API server's metrics: it does not report %s", wanted))
}
