package controller_test

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// noon is when every test begins.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// errCrash is what every write gets after the controller died.
var errCrash = errors.New("the controller is dead")

// world is a cluster in memory, one repository, a clock, and the controllers as they are between two restarts.
type world struct {
	t *testing.T
	// admin reads and writes as a person with kubectl does.
	admin client.WithWatch
	// through is the controllers' client.
	through client.WithWatch
	repo    *repository
	now     time.Time
	told    *told
	life    *life
	// refuse has the names of objects that the API server finds invalid.
	refuse string
	// lenient: the API server finds it invalid when it is written, although a dry run passes.
	lenient bool
	// transpiler may be shared by worlds that see the same trees: its memory is keyed by content alone.
	transpiler *transpile.Transpiler
	source     *controller.Source
	render     *controller.Render
}

// life ends the controller after a number of writes; negative is never. It names the writes.
type life struct {
	mu     sync.Mutex
	left   int
	writes []string
	// fault, where set, may take the place of an answer: done tells whether the write is done nevertheless.
	fault func(what string) (done bool, err error)
}

func (l *life) write(what string, do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return errCrash
	}
	l.left--
	l.writes = append(l.writes, what)
	if l.fault != nil {
		if done, err := l.fault(what); err != nil && done {
			return errors.Join(err, do())
		} else if err != nil {
			return err
		}
	}
	return do()
}

// told collects events, a line each.
type told struct{ lines []string }

// Eventf remembers the event.
func (e *told) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	e.lines = append(e.lines, kind+" "+reason+": "+fmt.Sprintf(note, args...))
}

// repository is a remote that holds its trees on disk.
type repository struct {
	t              *testing.T
	head           string
	trees          map[string]source.Tree
	lists, fetches int
	down           error
	// broken fails every fetch although listings are answered; where set, it is given the number of the fetch.
	broken  func(fetch int) error
	descent source.Descent
}

// List counts, and answers where the remote is not down.
func (r *repository) List(context.Context) ([]source.Ref, error) {
	r.lists++
	if r.down != nil {
		return nil, r.down
	}
	return []source.Ref{{Name: "HEAD", Hash: r.head, Target: "refs/heads/main"}, {Name: "refs/heads/main", Hash: r.head}}, nil
}

// Tree returns a commit's files.
func (r *repository) Tree(_ context.Context, p source.Picked) (source.Tree, error) {
	r.fetches++
	if r.broken != nil {
		return source.Tree{}, r.broken(r.fetches)
	}
	tree := r.trees[p.Hash]
	tree.Commit.Ref = p.Ref
	return tree, nil
}

// Descends answers what the test says.
func (r *repository) Descends(context.Context, string, string) (source.Descent, error) {
	return r.descent, nil
}

// push makes a commit that holds exactly the files of a txtar archive, and returns its revision.
func (r *repository) push(subject, files string) string {
	r.t.Helper()
	archive := txtar.Parse([]byte(files))
	dir := filepath.Join(r.t.TempDir(), "tree")
	for _, f := range archive.Files {
		file := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, f.Data, 0o644)); err != nil {
			r.t.Fatal(err)
		}
	}
	n := len(r.trees) + 1
	r.head = fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "%d %s", n, subject)))
	r.trees[r.head] = source.Tree{
		Root: dir, FS: os.DirFS(dir), Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(files))),
		Commit: source.Commit{Hash: r.head, Subject: subject, Author: "Ada <ada@example.com>", Time: noon.Add(time.Duration(n) * time.Minute)},
	}
	return "main@sha1:" + r.head
}

// newWorld has a GitSource `os`, the default pools, and whatever else a test begins with.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme, err := controller.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, repo: &repository{t: t, trees: map[string]source.Tree{}}, now: noon, told: &told{}, life: &life{left: -1}, transpiler: &transpile.Transpiler{}}
	objects = append([]client.Object{
		&v1alpha1.GitSource{
			ObjectMeta: metav1.ObjectMeta{Name: "os", Generation: 1},
			Spec:       v1alpha1.GitSourceSpec{URL: "https://git.example.com/os", Interval: metav1.Duration{Duration: time.Minute}},
		},
		pool("master"), pool("worker"),
	}, objects...)
	w.admin = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.GitSource{}, &mcfgv1.MachineConfigPool{}, &operatorv1.MachineConfiguration{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	w.through = interceptor.NewClient(w.admin, w.mortal())
	w.restart()
	return w
}

// mortal counts the controllers' writes, and refuses them once the controller is dead.
func (w *world) mortal() interceptor.Funcs {
	name := func(verb string, o client.Object) string { return fmt.Sprintf("%s %T %s", verb, o, o.GetName()) }
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.life.write(name("create", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.life.write(name("update", o), func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.life.write(name("patch", o), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			dry := isDryRun(opts)
			if named, ok := o.(interface{ GetName() string }); ok && slices.Contains(strings.Fields(w.refuse), named.GetName()) && !(dry && w.lenient) {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "MachineConfig"}, named.GetName(), nil)
			}
			if dry {
				return nil // the fake client would write
			}
			return w.life.write("apply", func() error { return c.Apply(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.life.write(name("delete", o), func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return w.life.write(name("update "+sub, o), func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
	}
}

// isDryRun reports whether an apply only asks.
func isDryRun(opts []client.ApplyOption) bool {
	o := client.ApplyOptions{}
	return len(o.ApplyOptions(opts).DryRun) > 0
}

// restart forgets everything that the controllers held in memory, and brings a dead one back.
func (w *world) restart() {
	w.life.left = -1
	clock := func() time.Time { return w.now }
	w.source = &controller.Source{
		Client: w.through, Live: w.through, Applier: &controller.Applier{Client: w.through, Live: w.through, Now: clock, Events: w.told}, Transpiler: w.transpiler, Namespace: "bunsen-system", Now: clock, Events: w.told,
		Open: func(v1alpha1.GitSourceSpec, controller.Secrets) (controller.Repository, error) { return w.repo, nil },
	}
	w.render = &controller.Render{Client: w.through, Live: w.admin, Renderer: &render.Renderer{}, Version: "v1", Now: clock, Events: w.told}
}

// follow lets the source controller look once.
func (w *world) follow() reconcile.Result {
	w.t.Helper()
	result, err := w.source.Reconcile(w.t.Context(), request("os"))
	if err != nil {
		w.t.Fatalf("following the repository: %v", err)
	}
	return result
}

// renderPool lets the render controller look at one pool, and returns the name of its config.
func (w *world) renderPool(name string) string {
	w.t.Helper()
	if _, err := w.render.Reconcile(w.t.Context(), request(name)); err != nil {
		w.t.Fatalf("rendering pool %s: %v", name, err)
	}
	return w.pool(name).Spec.Configuration.Name
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
}

// get reads an object that has to be there.
func get[T client.Object](w *world, name string, into T) T {
	w.t.Helper()
	if err := w.admin.Get(w.t.Context(), client.ObjectKey{Name: name}, into); err != nil {
		w.t.Fatal(err)
	}
	return into
}

func (w *world) gitSource() *v1alpha1.GitSource { return get(w, "os", &v1alpha1.GitSource{}) }
func (w *world) pool(name string) *mcfgv1.MachineConfigPool {
	return get(w, name, &mcfgv1.MachineConfigPool{})
}

func (w *world) config(name string) *mcfgv1.MachineConfig {
	return get(w, name, &mcfgv1.MachineConfig{})
}

// configs are all MachineConfigs by name.
func (w *world) configs() map[string]*mcfgv1.MachineConfig {
	w.t.Helper()
	var list mcfgv1.MachineConfigList
	if err := w.admin.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]*mcfgv1.MachineConfig{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// names are the MachineConfigs that no controller rendered, in order.
func (w *world) names() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.configs())) {
		if !strings.HasPrefix(name, "rendered-") {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// change writes an object as a person does; the generation moves as an API server moves it.
func change[T client.Object](w *world, o T, edit func(T)) {
	w.t.Helper()
	edit(o)
	o.SetGeneration(o.GetGeneration() + 1)
	if err := w.admin.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.admin.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(o client.Object) {
	w.t.Helper()
	if err := w.admin.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// condition is one of the GitSource's as `Status|Reason|Message`; "absent" where it has none of that type.
func (w *world) condition(kind string) string {
	c := meta.FindStatusCondition(w.gitSource().Status.Conditions, kind)
	if c == nil {
		return "absent"
	}
	return fmt.Sprintf("%s|%s|%s", c.Status, c.Reason, c.Message)
}

// poolCondition is one of a pool's as `Status|Message`.
func poolCondition(p *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s|%s", c.Status, c.Message)
		}
	}
	return "absent"
}

// versions are the resourceVersions of all MachineConfigs and pools: equal ones say that nothing was written.
func (w *world) versions() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for name, mc := range w.configs() {
		out["mc/"+name] = mc.ResourceVersion
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := w.admin.List(w.t.Context(), &pools); err != nil {
		w.t.Fatal(err)
	}
	for i := range pools.Items {
		out["mcp/"+pools.Items[i].Name] = pools.Items[i].ResourceVersion
	}
	return out
}

func pool(name string) *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: mcfgv1.MachineConfigPoolSpec{
			MachineConfigSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.RoleLabel: name}},
			NodeSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" + name: ""}},
		},
	}
}

// byHand is a MachineConfig that somebody made through the API.
func byHand(name, role, config string) *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.RoleLabel: role}},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(config)}},
	}
}

// files is a tree: each argument is `path=content` for a Butane document of one file, or a whole txtar section.
func files(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		if strings.HasPrefix(p, "-- ") {
			b.WriteString(p)
			continue
		}
		doc, content, _ := strings.Cut(p, "=")
		name := strings.TrimSuffix(filepath.Base(doc), ".bu")
		fmt.Fprintf(&b, "-- pools/%s --\nvariant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/%s\n      mode: 0644\n      contents:\n        inline: %q\n",
			doc, name, content)
	}
	return b.String()
}

// has fails where a text lacks any of the parts.
func has(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is\n%v, want\n%v", what, got, want)
	}
}

// revision is the newest one.
func (r *repository) revision() string { return "main@sha1:" + r.head }

// objects are all that sources put on the cluster, without versions and marks.
func (w *world) objects() string {
	w.t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.configs())) {
		if mc := w.config(name); mc.Labels[v1alpha1.SourceLabel] != "" {
			fmt.Fprintf(&b, "%s %v %s %v\n", name, mc.Labels, mc.Spec.Config.Raw, mc.Spec.KernelArguments)
		}
	}
	var pools mcfgv1.MachineConfigPoolList
	var policies v1alpha1.RolloutPolicyList
	if err := errors.Join(w.admin.List(w.t.Context(), &pools), w.admin.List(w.t.Context(), &policies)); err != nil {
		w.t.Fatal(err)
	}
	for _, p := range pools.Items {
		fmt.Fprintf(&b, "pool %s %v %v %v\n", p.Name, p.Labels, p.Spec.MachineConfigSelector, p.Spec.NodeSelector)
	}
	for _, p := range policies.Items {
		fmt.Fprintf(&b, "policy %s %v %v\n", p.Name, p.Labels, p.Spec)
	}
	return b.String()
}

// order is what the controllers wrote, in words; the same word in a row counts once, but for fragments.
func (w *world) order() string {
	var out []string
	recorded := false
	for _, write := range w.life.writes {
		word := write
		switch {
		case strings.HasPrefix(write, "create *v1alpha1.RevisionContent"):
			word = "keep content"
		case strings.HasPrefix(write, "delete *v1.PartialObjectMetadata"):
			word = "drop content"
		case strings.HasPrefix(write, "update status *v1alpha1.GitSource") && !recorded:
			word, recorded = "record what is applied", true
		case strings.HasPrefix(write, "update status *v1alpha1.GitSource"):
			word, recorded = "record the inventory", false
		}
		if len(out) == 0 || out[len(out)-1] != word || word == "apply" {
			out = append(out, word)
		}
	}
	return strings.Join(out, ", ")
}

func (w *world) lastEvent() string {
	if len(w.told.lines) == 0 {
		return "none"
	}
	return cmp.Or(w.told.lines[len(w.told.lines)-1], "empty")
}
