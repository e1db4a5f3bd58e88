package rights

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// TestEveryRightIsExercised fails on a verb of config/rbac that no table needs: remove it, or add the row that says
// what for.
func TestEveryRightIsExercised(t *testing.T) {
	roles := readRoles(t)
	for who, is := range identities {
		all := readTable(t, who)
		granted := rightsOf(roles, is)
		if len(granted) == 0 && is.roles != nil {
			t.Errorf("%s: config/rbac has no role %q", who, is.roles)
		}
		for _, p := range granted {
			if !slices.ContainsFunc(all.rows, func(r row) bool { return r.covers(p) }) {
				t.Errorf("%s: no row of the table needs %s", who, p)
			}
		}
		forbidden := 0
		for _, r := range all.rows {
			if !r.allowed {
				forbidden++
			}
		}
		if forbidden < fewest {
			t.Errorf("%s: the table forbids %d requests, want at least %d", who, forbidden, fewest)
		}
	}
}

// TestWhoMayDoWhat sends every request of every table to a real API server. Nothing is changed: each write is a dry
// run.
func TestWhoMayDoWhat(t *testing.T) {
	s := start(t, "NodeRestriction")
	t.Run("before the controller's first run, kubelets may set labels of pools", func(t *testing.T) {
		s.checkAll(t, kubelet("worker-9"), registration("worker-9", `example.com/gpu: "true"`, ""))
		// with the ConfigMap missing, its apply patch needs the right to create it
		s.checkAll(t, identities["controller"], readTable(t, "controller"))
	})
	t.Run("kubelets register their Nodes", func(t *testing.T) {
		s.publishLabels(t, 0)
		s.settled = time.Now().Add(settle)
		s.registers(t)
	})
	t.Run("kubelets of a cluster with 5,000 pools", func(t *testing.T) {
		s.publishLabels(t, 5000)
		s.settled = time.Now().Add(settle)
		s.registers(t)
		s.checkAll(t, kubelet("worker-9"), registration("worker-9", `example.com/pool-4999: ""`,
			"many-4999 selects its nodes by the label example.com/pool-4999"))
		s.publishLabels(t, 0)
		s.settled = time.Now().Add(settle)
	})
	for who, is := range identities {
		t.Run(who, func(t *testing.T) { s.checkAll(t, is, readTable(t, who)) })
	}
	t.Run("a daemon with the component nodes-read-configs", func(t *testing.T) {
		component := filepath.Join("..", "..", "config", "components", "nodes-read-configs")
		s.kubectl(t, "apply", "-k", component)
		s.settled = time.Now().Add(settle)
		s.checkAll(t, identities["daemon"], readFile(t, "nodes-read-configs"))
		s.kubectl(t, "delete", "-f", filepath.Join(component, "rights.yaml"))
		s.settled = time.Now().Add(settle)
		all := readTable(t, "daemon")
		all.rows = slices.DeleteFunc(all.rows, func(r row) bool { return r.resource != "machineconfigs" })
		s.checkAll(t, identities["daemon"], all)
	})
	t.Run("a server with the component trust-openshift", func(t *testing.T) {
		without := readFile(t, "trust-openshift")
		for i := range without.rows {
			without.rows[i].allowed = false
		}
		s.checkAll(t, identities["server"], without)
		s.kubectl(t, "apply", "-f", filepath.Join("..", "..", "config", "components", "trust-openshift", "rights.yaml"))
		s.settled = time.Now().Add(settle)
		s.checkAll(t, identities["server"], readFile(t, "trust-openshift"))
	})
}

// checkAll sends the requests of a table as an identity.
func (s server) checkAll(t *testing.T, is identity, all table) {
	t.Helper()
	client, err := rest.HTTPClientFor(s.as(is))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all.rows {
		s.check(t, client, r, all.bodies[r.body])
	}
}

// as returns the connection of an identity.
func (s server) as(who identity) *rest.Config {
	config := rest.CopyConfig(s.admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: who.user, Groups: who.groups}
	return config
}

// server is a real API server with config/ applied.
type server struct {
	admin *rest.Config
	// settled is when all rights and policies act.
	settled time.Time
	// bin has kubectl, and kubeconfig is the administrator's.
	bin, kubeconfig string
	// kinds are the resources that the API server has, by group, with the version and the verbs of each.
	kinds map[string]metav1.APIResource
}

// start runs an API server with further admission plug-ins.
func start(t *testing.T, plugins ...string) server {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(root, "bin", "assets")
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil {
		t.Fatalf("there is no kube-apiserver to test against: %v; make assets builds one", err)
	}
	no := false
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, UseExistingCluster: &no,
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node,RBAC")
	if len(plugins) > 0 {
		env.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", plugins...)
	}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Log(err)
		}
	})
	config.QPS = -1
	s := server{admin: config, bin: assets, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := os.WriteFile(s.kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	steps := [][]string{
		{"apply", "--server-side", "-k", filepath.Join(root, "config")},
		{"apply", "-f", filepath.Join("testdata", "openshift.yaml")},
		{"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"},
		{"apply", "-f", filepath.Join("testdata", "objects.yaml")},
	}
	for file, who := range requesters { // the API server writes into a certificate request whose it is
		step := []string{"create", "-f", filepath.Join("testdata", "requests", file+".yaml"), "--as", who.user}
		for _, g := range append([]string{"system:masters"}, who.groups...) {
			step = append(step, "--as-group", g)
		}
		steps = append(steps, step)
	}
	for _, args := range steps {
		s.kubectl(t, args...)
	}
	s.settled, s.kinds = time.Now().Add(settle), kindsOf(t, config)
	return s
}

func (s server) kubectl(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.bin, "kubectl"),
		append([]string{"--kubeconfig", s.kubeconfig}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
}

// kindsOf are the resources of the API server, by `resource.group` and `resource.group/subresource`.
func kindsOf(t *testing.T, config *rest.Config) map[string]metav1.APIResource {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]metav1.APIResource{}
	for _, list := range lists {
		group, version, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group, version = "", group
		}
		for _, kind := range list.APIResources {
			name, sub, _ := strings.Cut(kind.Name, "/")
			key := name + "." + group + "/" + sub
			kind.Version = version
			if _, known := out[key]; !known {
				out[key] = kind
			}
		}
	}
	return out
}

// settle is how long the API server may take to act on new rights and policies.
const settle = time.Minute

// check sends one request, again while rights and policies may not act yet.
func (s server) check(t *testing.T, client *http.Client, r row, body []byte) {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), s.settled)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.try(t.Context(), client, r, body)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%s: %v", r, err)
			return
		case <-again.C:
		}
	}
}

// try sends one request, and returns what is wrong with the answer.
func (s server) try(ctx context.Context, client *http.Client, r row, body []byte) error {
	// no path of the API server: checked where an owner reference or an approval is written
	if slices.Contains([]string{"finalizers", "nodeclient", "selfnodeclient"}, r.sub) || r.resource == "signers" {
		return s.review(ctx, client, r)
	}
	req, err := s.request(ctx, r, body)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var text []byte
	if r.verb != "watch" || res.StatusCode != http.StatusOK { // a watch that begins was allowed
		if text, err = io.ReadAll(io.LimitReader(res.Body, 4096)); err != nil {
			return err
		}
	}
	forbidden := res.StatusCode == http.StatusForbidden
	switch {
	case res.StatusCode >= 500, bytes.Contains(text, []byte("404 page not found")):
		return fmt.Errorf("the API server failed: %s %s", res.Status, text)
	case forbidden == r.allowed, r.body != "" && r.allowed && res.StatusCode >= 300:
		return fmt.Errorf("%s %s", res.Status, text)
	case r.says != "" && !strings.Contains(string(text), r.says):
		return fmt.Errorf("want a refusal that says %q, got: %s", r.says, text)
	}
	return nil
}

// methods of the verbs.
var methods = map[string]string{
	"get": http.MethodGet, "list": http.MethodGet, "watch": http.MethodGet, "create": http.MethodPost,
	"update": http.MethodPut,
	"patch":  http.MethodPatch, "apply": http.MethodPatch, "delete": http.MethodDelete,
	"deletecollection": http.MethodDelete,
}

func (s server) request(ctx context.Context, r row, body []byte) (*http.Request, error) {
	path, query := r.path, url.Values{}
	kind := s.kinds[r.resource+"."+r.group+"/"+r.sub]
	if path == "" {
		if kind.Version == "" || r.verb != "apply" && !slices.Contains(kind.Verbs, r.verb) {
			return nil, errors.New(
				"the API server has no such resource or verb: the row would be forbidden to everyone")
		}
		if everywhere := r.verb == "list" || r.verb == "watch"; !kind.Namespaced && r.namespace != "" ||
			kind.Namespaced && r.namespace == "" && !everywhere {
			return nil, errors.New("namespaced resources need a namespace, others have none")
		}
		path = resourcePath(r, kind.Version)
	}
	switch r.verb {
	case "create", "update", "patch", "delete", "deletecollection":
		query.Set("dryRun", "All")
	case "apply":
		query.Set("dryRun", "All")
		query.Set("fieldManager", "rights")
	case "watch":
		query.Set("watch", "true")
		query.Set("timeoutSeconds", "1")
	}
	if r.selected {
		query.Set("fieldSelector", "metadata.name="+r.name)
	}
	if len(body) == 0 {
		body = fmt.Appendf(nil, `{"metadata":{"name":%q}}`, r.name)
	}
	body = bytes.ReplaceAll(body, []byte("$IN_AN_HOUR"), []byte(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	body = bytes.ReplaceAll(body, []byte("$NAME"), []byte(r.name))
	raw, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", r.body, err)
	}
	var sent io.Reader
	if slices.Contains([]string{"create", "update", "patch", "apply"}, r.verb) {
		sent = bytes.NewReader(complete(raw, r, kind))
	}
	req, err := http.NewRequestWithContext(ctx, methods[r.verb], strings.TrimSuffix(s.admin.Host, "/")+path+"?"+
		query.Encode(), sent)
	if err != nil {
		return nil, err
	}
	contentType, patch := map[string]string{
		"patch": "application/merge-patch+json",
		"apply": "application/apply-patch+yaml",
	}[r.verb]
	if !patch {
		contentType = "application/json"
	}
	req.Header.Set("Content-Type", contentType)
	return req, nil
}

// review asks the API server whether the identity has a right that no request of its own exercises.
func (s server) review(ctx context.Context, client *http.Client, r row) error {
	kinds, err := kubernetes.NewForConfigAndClient(rest.AnonymousClientConfig(s.admin), client)
	if err != nil {
		return err
	}
	ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.sub, Namespace: r.namespace,
			Name: r.name,
		},
	}}
	answer, err := kinds.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
	if err == nil && answer.Status.Allowed != r.allowed {
		err = fmt.Errorf("allowed: %t", answer.Status.Allowed)
	}
	return err
}

// complete adds the kind of an object that has none.
func complete(raw []byte, r row, kind metav1.APIResource) []byte {
	var object map[string]any
	if r.verb == "patch" || json.Unmarshal(raw, &object) != nil || object["kind"] != nil {
		return raw
	}
	group, version := r.group, kind.Version
	if kind.Group != "" {
		group = kind.Group
	}
	object["kind"], object["apiVersion"] = kind.Kind, strings.TrimPrefix(group+"/"+version, "/")
	out, err := json.Marshal(object)
	if err != nil {
		return raw
	}
	return out
}

func resourcePath(r row, version string) string {
	path := "/api/" + version
	if r.group != "" {
		path = "/apis/" + r.group + "/" + version
	}
	if r.namespace != "" {
		path += "/namespaces/" + r.namespace
	}
	path += "/" + r.resource
	named := !slices.Contains([]string{"list", "watch", "deletecollection"}, r.verb) &&
		(r.verb != "create" || r.sub != "")
	if named {
		path += "/" + r.name
	}
	if r.sub != "" {
		path += "/" + r.sub
	}
	return path
}
