package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// plane is a real control plane: etcd, and kube-apiserver with an audit log of the controller's requests.
type plane struct {
	env   *envtest.Environment
	admin *rest.Config
	audit string
	dir   string
}

// who is the controller's user name.
const who = "machine-config-controller"

// auditPolicy logs the bodies of the controller's writes to nodes, and one line for each other request of the
// controller.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, users: [` + who + `], verbs: [patch, update], resources: [{group: "", resources: [nodes]}]}
- {level: Metadata, users: [` + who + `]}
- {level: None}
`

func startPlane(o options, dir string) (*plane, error) {
	p := &plane{dir: dir, audit: filepath.Join(dir, "audit.log")}
	policy := filepath.Join(dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	no := false
	p.env = &envtest.Environment{
		BinaryAssetsDirectory: o.assets, UseExistingCluster: &no, CRDDirectoryPaths: []string{filepath.Join(o.root, "config", "crd")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	p.env.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).Set("audit-log-path", p.audit).Set("audit-log-maxsize", "8000")
	var err error
	if p.admin, err = p.env.Start(); err != nil {
		return nil, fmt.Errorf("starting etcd and kube-apiserver: %w", err)
	}
	p.admin.QPS, p.admin.Burst = -1, -1
	return p, nil
}

// kubeconfig writes the kubeconfig of the controller.
func (p *plane) kubeconfig() (string, error) {
	user, err := p.env.AddUser(envtest.User{Name: who, Groups: []string{"system:masters"}}, nil)
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

// requests are the controller's requests.
type requests struct {
	// counts by kind of request, such as "list pods".
	counts map[string]int
	// told, tainted and drained are the numbers of writes to each node, by their purpose.
	told, tainted, drained map[string]int
}

// event is a line of the audit log.
type event struct {
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

// asked reads the log from an offset, and returns the offset of its end.
func (p *plane) asked(from int64) (requests, int64, error) {
	r := requests{counts: map[string]int{}, told: map[string]int{}, tainted: map[string]int{}, drained: map[string]int{}}
	f, err := os.Open(p.audit)
	if err != nil {
		return r, from, fmt.Errorf("reading the audit log: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if _, err := f.Seek(from, 0); err != nil {
		return r, from, fmt.Errorf("reading the audit log: %w", err)
	}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return r, from, nil // the end, or an incomplete line
		}
		from += int64(len(line))
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return r, from, fmt.Errorf("reading the audit log: %w", err)
		}
		r.add(e)
	}
}

func (r *requests) add(e event) {
	what := e.Verb + " " + e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		what += "/" + e.ObjectRef.Subresource
	}
	if e.ObjectRef.Resource == "nodes" && e.Verb == "patch" {
		kind, of := r.kind(string(e.RequestObject))
		what += ", " + kind
		if e.ResponseStatus.Code < 300 {
			of[e.ObjectRef.Name]++
		}
	}
	if e.ResponseStatus.Code == 409 {
		what += " (conflict)"
	}
	r.counts[what]++
}

// kind returns the purpose of a write to a node.
func (r *requests) kind(body string) (string, map[string]int) {
	switch {
	case strings.Contains(body, "/desiredConfig"):
		return "the order", r.told
	case strings.Contains(body, `"taints"`):
		return "the taint", r.tainted
	default:
		return "the drain", r.drained
	}
}

// most returns the maximum and the mean number of the rollout's writes to a node. It counts the drain separately.
func (r *requests) most(nodes int) (most int, mean, drain float64) {
	sum := 0
	for node, n := range r.told {
		sum += n
		most = max(most, n+r.tainted[node])
	}
	for node, n := range r.tainted {
		sum += n
		most = max(most, n+r.told[node])
	}
	drained := 0
	for _, n := range r.drained {
		drained += n
	}
	return most, float64(sum) / float64(nodes), float64(drained) / float64(nodes)
}
