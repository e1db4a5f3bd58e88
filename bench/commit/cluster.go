package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/flow"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/plane"
)

const (
	// bigLimit is how long a commit of 2,000 documents may take until it is on the cluster. Other sizes may take as
	// long for each document.
	bigLimit = 15 * time.Second
	bigSize  = 2000
	// perCore is how many requests the floor sends at a time for each core, as the controller does.
	perCore = 3
	// stuck is how long the program waits for anything.
	stuck = 5 * time.Minute
	// floorRole is the role of MachineConfigs that no pool has.
	floorRole = "floor"
)

const clusterPreface = `
From a push to the objects on a real API server, with the controller as a process of its own. Each document is one
MachineConfig. The controller checks each with a dry run, then writes it; the floor is one server-side apply of each,
%d at a time. A revert is then pushed while the commit before is written.
`

// clusterRun is a measured cluster.
type clusterRun struct {
	*flow.Flow
	dir     string
	objects int
}

// onCluster measures a commit of many documents on a real API server. It returns its figures.
func onCluster(ctx context.Context, files plane.Files, objects int, out io.Writer) (all []measure.Figure, err error) {
	dir, done, err := measure.Scratch()
	if err != nil {
		return nil, err
	}
	defer done()
	f, err := flow.Start(ctx, files, dir, plane.MetadataOnly)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	f.Limit = stuck
	c := &clusterRun{Flow: f, dir: filepath.Join(dir, "repository"), objects: objects}
	all, err = c.all(ctx, out)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, f.Controller.Tail())
	}
	return all, nil
}

// all measures and prints.
func (c *clusterRun) all(ctx context.Context, out io.Writer) ([]measure.Figure, error) {
	fmt.Fprintf(out, clusterPreface, perCore*runtime.GOMAXPROCS(0))
	floor, err := c.floor(ctx)
	if err != nil {
		return nil, fmt.Errorf("measuring the floor: %w", err)
	}
	if err := c.init(ctx); err != nil {
		return nil, err
	}
	whole, err := c.whole(ctx)
	if err != nil {
		return nil, fmt.Errorf("a commit of %d documents: %w", c.objects, err)
	}
	urgent, err := c.overtake(ctx)
	if err != nil {
		return nil, fmt.Errorf("a revert during a commit: %w", err)
	}
	goal := max(bigLimit*time.Duration(c.objects)/bigSize, time.Second)
	beside := []measure.Peer{measure.Took("a server-side apply of each", floor)}
	fmt.Fprintf(out, "The floor: %s\n", measure.Duration(floor))
	return []measure.Figure{
		{
			What: "a commit, until it is applied", Size: c.objects, Of: "documents", Now: measure.Time(whole),
			Goals: []measure.Bound{measure.AtMost(measure.Time(goal))}, Peers: beside,
		},
		{
			What: "a revert in the middle of a commit, until it is applied", Size: c.objects, Of: "documents",
			Now: measure.Time(urgent), Peers: beside,
		},
	}, nil
}

// floor applies the same objects without a controller, and removes them.
func (c *clusterRun) floor(ctx context.Context) (time.Duration, error) {
	work := make(chan int)
	errs := make([]error, c.objects)
	begun := time.Now()
	var group sync.WaitGroup
	for range perCore * runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range work {
				errs[i] = c.applyOne(ctx, i)
			}
		})
	}
	for i := range c.objects {
		work <- i
	}
	close(work)
	group.Wait()
	took := time.Since(begun)
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return took, c.Admin.DeleteAllOf(ctx, &mcfgv1.MachineConfig{}, client.MatchingLabels{v1alpha1.RoleLabel: floorRole})
}

func (c *clusterRun) applyOne(ctx context.Context, i int) error {
	mc := corpus.Small.MachineConfig(i, 0)
	var config map[string]any
	if err := json.Unmarshal(mc.Spec.Config.Raw, &config); err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": config}}}
	u.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfig"))
	u.SetName("floor-" + mc.Name)
	u.SetLabels(map[string]string{v1alpha1.RoleLabel: floorRole})
	return c.Admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("floor"),
		client.ForceOwnership)
}

// repository has half of the documents in each of the standard pools, because a config has a maximum size.
func (c *clusterRun) repository() corpus.Repository {
	return corpus.Repository{
		Documents: corpus.Small, Fragments: c.objects, PerPool: (c.objects + 1) / 2,
		Pools: []string{flow.Pool, "master"},
	}
}

// init makes a repository with one document, and lets the controller apply it.
func (c *clusterRun) init(ctx context.Context) error {
	if err := c.repository().Write(c.dir, 0, 0); err != nil {
		return err
	}
	if err := corpus.Init(ctx, c.dir); err != nil {
		return err
	}
	hash, err := corpus.Commit(ctx, c.dir, "one document")
	if err != nil {
		return err
	}
	if err := c.Follow(ctx, c.dir); err != nil {
		return err
	}
	_, err = c.Rendered(ctx, hash)
	return err
}

// push commits all documents of a generation, and asks the controller to look.
func (c *clusterRun) push(ctx context.Context, generation int) (string, error) {
	for i := range c.objects {
		if err := c.repository().Write(c.dir, i, generation); err != nil {
			return "", err
		}
	}
	hash, err := corpus.Commit(ctx, c.dir, fmt.Sprintf("generation %d", generation))
	if err != nil {
		return "", err
	}
	look := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileAnnotation, hash)
	source := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: flow.Source}}
	return hash, c.Admin.Patch(ctx, source, client.RawPatch(types.MergePatchType, []byte(look)))
}

// until waits for a state of the source. It watches the source: reading one with thousands of objects again and again
// costs the API server as much as the writes that are measured.
func (c *clusterRun) until(ctx context.Context, is func(*v1alpha1.GitSourceStatus) bool) error {
	ctx, cancel := context.WithTimeout(ctx, stuck)
	defer cancel()
	var last v1alpha1.GitSourceStatus
	for ctx.Err() == nil {
		w, err := c.Admin.Watch(ctx, &v1alpha1.GitSourceList{}, client.MatchingFields{"metadata.name": flow.Source})
		if err != nil {
			return err
		}
		for e := range w.ResultChan() {
			source, isSource := e.Object.(*v1alpha1.GitSource)
			if !isSource {
				break
			}
			if last = source.Status; is(&last) {
				w.Stop()
				return nil
			}
		}
		w.Stop()
	}
	return fmt.Errorf("%w: %v", ctx.Err(), last.Conditions)
}

func applied(hash string) func(*v1alpha1.GitSourceStatus) bool {
	return func(s *v1alpha1.GitSourceStatus) bool {
		return strings.HasSuffix(s.AppliedRevision, hash) && s.Applying == nil
	}
}

// whole measures one commit with all documents.
func (c *clusterRun) whole(ctx context.Context) (time.Duration, error) {
	hash, err := c.push(ctx, 0)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := c.until(ctx, applied(hash)); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	return took, c.settled(ctx, hash)
}

// settled waits until both pools have their configs of a commit.
func (c *clusterRun) settled(ctx context.Context, hash string) error {
	for _, pool := range c.repository().Pools {
		p := &mcfgv1.MachineConfigPool{}
		if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, stuck, true,
			func(ctx context.Context) (bool, error) {
				err := c.Admin.Get(ctx, client.ObjectKey{Name: pool}, p)
				return strings.HasSuffix(p.Annotations[v1alpha1.RevisionAnnotation], hash), err
			}); err != nil {
			return fmt.Errorf("rendering pool %s: %w: %v", pool, err, p.Status.Conditions)
		}
	}
	return nil
}

// overtake measures a revert that is pushed in the middle of a commit that changes all documents. It fails if a pool
// got a config that is of neither commit.
func (c *clusterRun) overtake(ctx context.Context) (time.Duration, error) {
	before, err := c.rendered(ctx)
	if err != nil {
		return 0, err
	}
	bad, err := c.push(ctx, 1)
	if err != nil {
		return 0, err
	}
	if err := c.until(ctx, func(s *v1alpha1.GitSourceStatus) bool {
		return s.Applying != nil && strings.HasSuffix(s.Applying.Revision, bad) || applied(bad)(s)
	}); err != nil {
		return 0, err
	}
	revert, err := c.push(ctx, 0)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := c.until(ctx, applied(revert)); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	if err := c.settled(ctx, revert); err != nil {
		return 0, err
	}
	after, err := c.rendered(ctx)
	if err != nil {
		return 0, err
	}
	var overtaken bool
	if err := c.until(ctx, func(s *v1alpha1.GitSourceStatus) bool {
		overtaken = true
		for _, e := range s.History {
			overtaken = overtaken && !strings.HasSuffix(e.Revision, bad)
		}
		return true
	}); err != nil {
		return 0, err
	}
	for _, config := range after {
		if overtaken && !slices.Contains(before, config) {
			return 0, fmt.Errorf("a mixture of two commits was rendered: %s, which was not there before", config)
		}
	}
	if !overtaken && c.objects >= bigSize {
		return 0, errors.New("the revert did not overtake the commit before")
	}
	return took, nil
}

// rendered returns the names of the rendered configs.
func (c *clusterRun) rendered(ctx context.Context) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigList"))
	if err := c.Admin.List(ctx, list); err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "rendered-") {
			out = append(out, list.Items[i].Name)
		}
	}
	return out, nil
}
