package fromgit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/fromgit"
	"github.com/bunsen-os/bunsen/mcs"
	bunsenreconcile "github.com/bunsen-os/bunsen/reconcile"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/source"

	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/render"

	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/repository"

	"github.com/bunsen-os/bunsen/transpile"
)

// TestTheConfigsAreTheClusters: every example, pushed to a real git server, is followed by the cluster's own
// controllers and by a server without a cluster. Each pool has a config of the same name and content, and a new machine
// of it gets the same bytes from both, in the oldest and the newest version of Ignition, with secrets and without.
func TestTheConfigsAreTheClusters(t *testing.T) {
	for _, c := range []struct {
		example, path string
		defaults      fromgit.Images
	}{
		{"quickstart", "", fromgit.Images{}},
		{"cookbook", "", fromgit.Images{}},
		{"cookbook", "sites/one", fromgit.Images{OS: "registry.example.com/os@sha256:" + strings.Repeat("1", 64), Extensions: "registry.example.com/extensions@sha256:" + strings.Repeat("2", 64)}},
		{"fcos-kubeadm", "", fromgit.Images{}},
		{"flatcar-kubeadm", "", fromgit.Images{}},
	} {
		t.Run(filepath.Join(c.example, c.path), func(t *testing.T) {
			from := newRemote(t)
			if err := os.CopyFS(filepath.Join(from.work, c.path),
				os.DirFS(filepath.Join("../../examples", c.example))); err != nil {
				t.Fatal(err)
			}
			from.commit("The example " + c.example)
			in := inCluster(t, from, c.path, c.defaults)
			m := newMachine(t, from)
			m.config.Path, m.config.Defaults = c.path, c.defaults
			repository, _ := m.open()
			bare, err := repository.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(bare.Pools) == 0 || len(bare.Pools) != len(in) {
				t.Errorf("%d pools without a cluster, %d in one", len(bare.Pools), len(in))
			}
			for pool, want := range in {
				same(t, pool, want, bare.Pools[pool])
			}
		})
	}
}

// same compares a pool's config in a cluster with the one without.
func same(t *testing.T, pool string, want, got *mcfgv1.MachineConfig) {
	t.Helper()
	if got == nil || got.Name != want.Name {
		t.Errorf("pool %s: %s in a cluster, without one %v", pool, want.Name, got)
		return
	}
	if err := fromgit.CheckName(pool, got); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("pool %s, -cluster +without\n%s", pool, diff)
	}
	for _, key := range []string{
		v1alpha1.RevisionAnnotation, v1alpha1.CommitAuthorAnnotation,
		v1alpha1.CommitSubjectAnnotation, v1alpha1.CommitTimeAnnotation, v1alpha1.RepositoryAnnotation,
		v1alpha1.RendererAnnotation,
	} {
		if want.Annotations[key] != got.Annotations[key] || got.Annotations[key] == "" {
			t.Errorf("pool %s: %s is %q in a cluster, %q without", pool, key, want.Annotations[key],
				got.Annotations[key])
		}
	}
	for _, v := range []mcs.Version{mcs.Versions()[0], mcs.Newest} {
		for _, withhold := range []bool{false, true} {
			a, errA := mcs.Compose(mcs.Input{Pool: pool, Rendered: want, Withhold: withhold}, v)
			b, errB := mcs.Compose(mcs.Input{Pool: pool, Rendered: got, Withhold: withhold}, v)
			if (errA == nil) != (errB == nil) || errA != nil && errA.Error() != errB.Error() {
				t.Errorf("pool %s, Ignition %s: %v in a cluster, %v without", pool, v, errA, errB)
			}
			if string(a.Head) != string(b.Head) || string(a.Tail) != string(b.Tail) {
				t.Errorf("pool %s, Ignition %s: other bytes", pool, v)
			}
		}
	}
}

// silent hears events and keeps them.
type silent struct{}

// Send does nothing.
func (silent) Send(kube.Event) {}

// inCluster is what the controllers make of the repository: each pool's rendered config.
func inCluster(t *testing.T, from *remote, path string, d fromgit.Images) map[string]*mcfgv1.MachineConfig {
	t.Helper()
	scheme, err := bunsenreconcile.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "git", Namespace: "bunsen-system"},
		Data:       map[string][]byte{},
	}
	dir := from.secret(nil)
	for _, name := range []string{"username", "password", "ca.crt"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		secret.Data[name] = []byte(strings.TrimSuffix(string(data), "\n"))
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.GitSource{},
		&mcfgv1.MachineConfigPool{}, &operatorv1.MachineConfiguration{}).
		WithObjects(secret, standard("master"), standard("worker"), &v1alpha1.GitSource{
			ObjectMeta: metav1.ObjectMeta{Name: "os", Generation: 1},
			Spec: v1alpha1.GitSourceSpec{
				URL: from.url(), Path: path,
				SecretRef: &v1alpha1.SecretReference{Name: "git"},
			},
		}).Build()
	trees, err := repository.Open(t.TempDir(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trees.Close() })
	follow := &gitsource.Controller{
		Client: c, Live: c, Applier: &gitsource.Applier{Client: c, Live: c, Now: time.Now, Events: silent{}},
		Transpiler: &transpile.Transpiler{}, Namespace: "bunsen-system", Now: time.Now, Events: silent{},
		Open: func(spec v1alpha1.GitSourceSpec, s source.Secrets) (gitsource.Repository, error) {
			r, err := (&repository.Opener{Store: trees}).OpenGit(git.Config{URL: spec.URL, Secret: s.Credentials})
			r.Path = spec.Path
			return r, err
		},
	}
	reconciled(t, follow, "os")
	renders := &render.Controller{
		Client: c, Renderer: &render.Renderer{}, Version: "v1", Now: time.Now, Events: silent{},
		Defaults: render.Defaults{OSImageURL: d.OS, ExtensionsImage: d.Extensions},
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := c.List(t.Context(), &pools); err != nil {
		t.Fatal(err)
	}
	out := map[string]*mcfgv1.MachineConfig{}
	for i := range pools.Items {
		p := &pools.Items[i]
		reconciled(t, renders, p.Name)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		if name := p.Spec.Configuration.Name; name != "" {
			out[p.Name] = &mcfgv1.MachineConfig{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, out[p.Name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

func reconciled(t *testing.T, r reconcile.Reconciler, name string) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// standard is a pool that every cluster has.
func standard(name string) *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mcfgv1.MachineConfigPoolSpec{
		MachineConfigSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.RoleLabel: name}},
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" +
			name: ""}},
	}}
}
