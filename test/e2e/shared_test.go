package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// shared are the control planes of all stories of this process. To start one and to install Bunsen on it costs more
// CPU time than most stories do, so that a story gets the one that an earlier story has left, as it was after the
// installation.
var shared planes

func TestMain(m *testing.M) {
	// The stories read every kind of the API server, also kinds that Kubernetes wants to remove. Its warnings about
	// them would bury the names of the stories that failed.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	code := m.Run()
	shared.stop()
	os.Exit(code)
}

// planes are control planes that no story uses now.
type planes struct {
	mu   sync.Mutex
	idle []*plane
}

// plane is a running etcd and kube-apiserver, with Bunsen installed.
type plane struct {
	env *envtest.Environment
	dir string
	// kept are the objects in etcd after the installation, by key.
	kept map[string]stored
}

// stored is an object in etcd, as etcd's gateway for JSON writes it: key and value in base64.
type stored struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Revision string `json:"mod_revision"`
}

// take returns a control plane for one story.
func (p *planes) take(parts parts) (*plane, error) {
	if left := p.left(); left != nil {
		return left, nil
	}
	dir, err := os.MkdirTemp("", "bunsen-plane-")
	if err != nil {
		return nil, err
	}
	started := &plane{dir: dir}
	if err := started.start(parts); err != nil {
		started.stop()
		return nil, err
	}
	return started, nil
}

// left returns a control plane that a story has left, or nil.
func (p *planes) left() *plane {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	last := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return last
}

// giveBack takes a control plane back from a story. One that cannot be put into its first state is ended.
func (p *planes) giveBack(used *plane) {
	if used == nil {
		return
	}
	if err := used.reset(); err != nil {
		fmt.Fprintln(os.Stderr, "this control plane is not used again:", err)
		used.stop()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, used)
}

func (p *planes) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.idle {
		one.stop()
	}
	p.idle = nil
}

// start returns when the API server answers and Bunsen is installed. Secrets are encrypted in etcd. Rights are those of
// a real cluster: the Node authorizer, NodeRestriction and the roles in config/rbac.
func (p *plane) start(parts parts) error {
	no := false
	p.env = &envtest.Environment{
		BinaryAssetsDirectory: parts.assets, UseExistingCluster: &no,
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: time.Minute,
	}
	encryption := filepath.Join(p.dir, "encryption.yaml")
	if err := encryptSecrets(encryption); err != nil {
		return err
	}
	p.env.ControlPlane.GetAPIServer().Configure().
		Set("authorization-mode", "Node,RBAC").
		Set("enable-bootstrap-token-auth", "true").
		Append("enable-admission-plugins", "NodeRestriction").
		Set("encryption-provider-config", encryption)
	if _, err := p.env.Start(); err != nil {
		return fmt.Errorf("starting etcd and kube-apiserver: %w", err)
	}
	c, err := p.cluster(parts, p.dir)
	if err != nil {
		return err
	}
	home := []string{
		"HOME=" + p.dir, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + filepath.Join(p.dir, "admin.kubeconfig"),
		"KUBECACHEDIR=" + filepath.Join(p.dir, ".kube"),
	}
	if err := c.install(home); err != nil {
		return fmt.Errorf("installing Bunsen: %w", err)
	}
	objects, err := p.objects()
	if err != nil {
		return err
	}
	p.kept = objects
	return nil
}

func (p *plane) stop() {
	if p.env != nil {
		_ = p.env.Stop() // a control plane that does not stop in time is killed, and nothing of it is kept
	}
	_ = os.RemoveAll(p.dir)
}

// own are the beginnings of keys that the API server writes for itself.
var own = []string{
	"/registry/masterleases/", "/registry/peerserverleases/", "/registry/leases/kube-system/", "/registry/ranges/",
	"/registry/services/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes",
}

// objects returns what is in etcd, but for what the API server writes for itself.
func (p *plane) objects() (map[string]stored, error) {
	var answer struct {
		Kvs []stored `json:"kvs"`
	}
	all := map[string]string{"key": text("/registry/"), "range_end": text("/registry0")}
	if err := p.etcd("range", all, &answer); err != nil {
		return nil, err
	}
	found := map[string]stored{}
	for _, kv := range answer.Kvs {
		key, err := base64.StdEncoding.DecodeString(kv.Key)
		if err != nil {
			return nil, fmt.Errorf("reading a key of etcd: %w", err)
		}
		if !slices.ContainsFunc(own, func(begin string) bool { return strings.HasPrefix(string(key), begin) }) {
			found[string(key)] = kv
		}
	}
	return found, nil
}

// reset makes etcd what it was after the installation, and returns when the API server has seen it: what a story made
// is deleted, what it changed or deleted is written back.
func (p *plane) reset() error {
	now, err := p.objects()
	if err != nil {
		return err
	}
	var changes []map[string]any
	for key, kv := range now {
		if _, ok := p.kept[key]; !ok {
			changes = append(changes, map[string]any{"request_delete_range": map[string]string{"key": kv.Key}})
		}
	}
	for key, kept := range p.kept {
		if now[key].Revision != kept.Revision {
			changes = append(changes, map[string]any{"request_put": map[string]string{
				"key": kept.Key, "value": kept.Value,
			}})
		}
	}
	for batch := range slices.Chunk(changes, 100) { // etcd takes at most 128 at once
		if err := p.etcd("txn", map[string]any{"success": batch}, nil); err != nil {
			return err
		}
	}
	if err := p.seen(); err != nil {
		return err
	}
	after, err := p.objects()
	if err != nil {
		return err
	}
	for key, kept := range p.kept {
		if after[key].Value != kept.Value {
			return fmt.Errorf("%s is not what it was", key)
		}
		p.kept[key] = after[key]
	}
	for key := range after {
		if _, ok := p.kept[key]; !ok {
			return fmt.Errorf("%s came back", key)
		}
	}
	return nil
}

// seen lists every kind of object. Such a list is answered when the API server's caches are as new as etcd.
func (p *plane) seen() error {
	c, err := discovery.NewDiscoveryClientForConfig(p.env.Config)
	if err != nil {
		return err
	}
	lists, err := c.ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("listing the kinds of the API server: %w", err)
	}
	fast := rest.CopyConfig(p.env.Config)
	fast.QPS, fast.Burst = 200, 400
	clients, err := dynamic.NewForConfig(fast)
	if err != nil {
		return err
	}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") {
				continue
			}
			_, err := clients.Resource(group.WithResource(kind.Name)).List(context.Background(), metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("listing %s: %w", kind.Name, err)
			}
		}
	}
	return nil
}

// etcd sends a request to etcd's gateway for JSON.
func (p *plane) etcd(call string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	address := p.env.ControlPlane.Etcd.URL.String() + "/v3/kv/" + call
	client := http.Client{Timeout: time.Minute}
	got, err := client.Post(address, "application/json", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking etcd: %w", err)
	}
	text, err := io.ReadAll(got.Body)
	if err := errors.Join(err, got.Body.Close()); err != nil {
		return fmt.Errorf("reading etcd's answer: %w", err)
	}
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s: %s", got.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// text returns a text as etcd's gateway wants it.
func text(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
