package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/plane"
	"github.com/bunsen-os/bunsen/reconcile"
)

const (
	namespace = "bunsen-sources"
	hookToken = "a secret of a webhook for measurements"
	mono      = "mono.git"
)

// parts are the processes.
type parts struct {
	server *server
	plane  *plane.Plane
	child  *plane.Controller
}

// bench measures a cluster.
type bench struct {
	options
	parts
	admin   client.Client
	out     io.Writer
	figures []measure.Figure
	rows    []row
	// commits counts the commits of each repository.
	commits map[string]int
	audited int64 // position in the audit log
	*observer
}

func newBench(o options, out io.Writer, p parts) (*bench, error) {
	scheme, err := reconcile.Scheme()
	if err != nil {
		return nil, err
	}
	admin, err := client.NewWithWatch(p.plane.Admin, client.Options{Scheme: scheme})
	return &bench{
		options: o, parts: p, admin: admin, out: out, commits: map[string]int{},
		observer: newObserver(admin, o.limit),
	}, err
}

// own returns the name of a GitSource with a repository of its own.
func own(i int) string { return fmt.Sprintf("own-%03d", i) }

func sharing(i int) string { return fmt.Sprintf("shared-%03d", i) }

// butane is a document with one small file, which no other source writes.
func butane(folder, name string, n int) file {
	return file{
		fmt.Sprintf("%spools/worker/50-%s.bu", folder, name),
		fmt.Sprintf("variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/sources/%s\n"+
			"      mode: 0644\n      contents:\n        inline: commit %d\n", name, n),
	}
}

// pushOwn adds a commit to the repository of a GitSource.
func (b *bench) pushOwn(ctx context.Context, name string) (string, error) {
	n := b.commits[name]
	b.commits[name]++
	return b.server.push(ctx, name+".git", n, []file{butane("", name, n)})
}

// pushMono adds a commit to the shared repository that changes the folder of each source.
func (b *bench) pushMono(ctx context.Context) (string, error) {
	n := b.commits[mono]
	b.commits[mono]++
	var files []file
	for i := range b.shared {
		files = append(files, butane("clusters/"+sharing(i)+"/", sharing(i), n))
	}
	return b.server.push(ctx, mono, n, files)
}

// create creates the Secret of the webhook and all GitSources.
func (b *bench) create(ctx context.Context) error {
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bunsen-system"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hook"},
			Data:       map[string][]byte{"token": []byte(hookToken)},
		},
	} {
		if err := b.admin.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %s: %w", o.GetName(), err)
		}
	}
	specs := map[string]v1alpha1.GitSourceSpec{}
	for i := range b.sources - b.dead - b.shared {
		specs[own(i)] = v1alpha1.GitSourceSpec{URL: b.server.URL + "/" + own(i) + ".git"}
	}
	for i := range b.shared {
		specs[sharing(i)] = v1alpha1.GitSourceSpec{URL: b.server.URL + "/" + mono, Path: "clusters/" + sharing(i)}
	}
	for i := range b.dead {
		specs[fmt.Sprintf("dead-%03d", i)] = v1alpha1.GitSourceSpec{URL: fmt.Sprintf("http://%s/dead-%d.git",
			b.server.dead.Addr(), i)}
	}
	var errs []error
	for name, spec := range specs {
		spec.Ref.Branch, spec.Interval.Duration = "main", b.interval
		if name == own(0) {
			spec.Webhook = &v1alpha1.Webhook{
				Type:      v1alpha1.WebhookGitHub,
				SecretRef: v1alpha1.SecretReference{Name: "hook"},
			}
		}
		errs = append(errs, b.admin.Create(ctx, &v1alpha1.GitSource{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       spec,
		}))
	}
	return errors.Join(errs...)
}

// usage is what a period used.
type usage struct {
	wall, cpu time.Duration
	memory    uint64
	files     int
	git       counts
	requests  int
	writes    map[string]int
}

// charge measures the controller during a function.
func (b *bench) charge(do func() error) (usage, error) {
	u := usage{writes: map[string]int{}}
	var err error
	if b.audited, err = b.plane.Requests(b.audited, func(plane.Request) {}); err != nil {
		return u, err
	}
	before, err := b.child.Usage()
	if err != nil {
		return u, err
	}
	git, begun := b.server.read(), time.Now()
	if err := do(); err != nil {
		return u, err
	}
	u.wall, u.git = time.Since(begun), b.server.read().since(git)
	after, err := b.child.Usage()
	if err != nil {
		return u, err
	}
	u.cpu, u.memory = after.CPU-before.CPU, after.Peak
	if u.files, err = b.child.OpenFiles(); err != nil {
		return u, err
	}
	b.audited, err = b.plane.Requests(b.audited, func(r plane.Request) {
		u.requests++
		if r.IsWrite() {
			u.writes[r.String()]++
		}
	})
	return u, err
}

// floor measures git ls-remote, the same listing by the git program.
func (b *bench) floor(ctx context.Context) (measure.Sample, error) {
	return measure.Process(shell(ctx, fmt.Sprintf("exec git -c http.extraHeader='%s: 1' ls-remote -q %s/%s.git "+
		"refs/heads/main", uncounted, b.server.URL, own(0))))
}
