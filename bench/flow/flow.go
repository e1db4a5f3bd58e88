package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/plane"
	"github.com/bunsen-os/bunsen/reconcile"
)

// Pool is the measured pool.
const Pool = "worker"

// Flow is a measured cluster.
type Flow struct {
	Plane      *plane.Plane
	Controller *plane.Controller
	// Admin reads and writes as an administrator.
	Admin client.WithWatch
	// Limit is how long one change may take.
	Limit time.Duration

	read int64 // position in the audit log
}

// Start starts a control plane and the controller with their files in a directory. The audit policy says which requests
// Charge returns.
func Start(ctx context.Context, files plane.Files, dir, auditPolicy string) (*Flow, error) {
	p, err := plane.Start(files, dir, auditPolicy)
	if err != nil {
		return nil, err
	}
	scheme, err := reconcile.Scheme()
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	f := &Flow{Plane: p}
	if f.Admin, err = client.NewWithWatch(p.Admin, client.Options{Scheme: scheme}); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	if f.Controller, err = p.StartController(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return f, nil
}

// Stop stops all processes.
func (f *Flow) Stop() error {
	f.Controller.Stop()
	return f.Plane.Stop()
}

// Charge makes a change. It returns the CPU time of the controller meanwhile, the peak of its memory and its memory at
// the end, and calls a function for each request of the controller.
func (f *Flow) Charge(change func() error, each func(plane.Request)) (measure.Usage, error) {
	var err error
	if f.read, err = f.Plane.Requests(f.read, func(plane.Request) {}); err != nil {
		return measure.Usage{}, err
	}
	before, err := f.Controller.Usage()
	if err != nil {
		return before, err
	}
	if err := change(); err != nil {
		return before, err
	}
	used, err := f.Controller.Usage()
	if err != nil {
		return used, err
	}
	used.CPU -= before.CPU
	f.read, err = f.Plane.Requests(f.read, each)
	return used, err
}

// Until reads the pool until it meets a condition.
func (f *Flow) Until(ctx context.Context, is func(*mcfgv1.MachineConfigPool) bool) (*mcfgv1.MachineConfigPool, error) {
	p := &mcfgv1.MachineConfigPool{}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, f.Limit, true,
		func(ctx context.Context) (bool, error) {
			err := f.Admin.Get(ctx, client.ObjectKey{Name: Pool}, p)
			return err == nil && is(p), client.IgnoreNotFound(err)
		})
	if err != nil {
		err = fmt.Errorf("%w; the pool has %d of %d nodes updated: %v", err, p.Status.UpdatedMachineCount,
			p.Status.MachineCount, p.Status.Conditions)
	}
	return p, err
}

// Runs reports whether all nodes of a pool run a config.
func Runs(p *mcfgv1.MachineConfigPool, config string, nodes int) bool {
	s := p.Status
	return s.Configuration.Name == config && int(s.UpdatedMachineCount) == nodes && int(s.ReadyMachineCount) == nodes
}

// Source is the name of the GitSource.
const Source = "config"

// Follow creates a GitSource of a repository on this machine, which the controller looks at only when Rendered asks for
// it.
func (f *Flow) Follow(ctx context.Context, dir string) error {
	g := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: Source}}
	g.Spec.URL, g.Spec.Ref.Branch, g.Spec.Interval.Duration = "file://"+dir, "main", time.Hour
	return f.Admin.Create(ctx, g)
}

// Rendered asks the controller to look at the repository, and waits until the pool has the config of a commit. It
// returns the name of the config.
func (f *Flow) Rendered(ctx context.Context, hash string) (string, error) {
	now := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileAnnotation, hash)
	g := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: Source}}
	if err := f.Admin.Patch(ctx, g, client.RawPatch(types.MergePatchType, []byte(now))); err != nil {
		return "", err
	}
	p, err := f.Until(ctx, func(p *mcfgv1.MachineConfigPool) bool {
		return strings.HasSuffix(p.Annotations[v1alpha1.RevisionAnnotation], hash) && p.Spec.Configuration.Name != ""
	})
	return p.Spec.Configuration.Name, err
}
