package gitsource

import (
	"context"
	"encoding/json"
	"runtime"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// writesPerCore is how many requests of one apply may wait for the API server, for each core that the controller
	// may use. More do not make it faster where both share the cores, and would delay other clients.
	writesPerCore = 3
	// reportEvery is how often a long apply reports its progress. The status of a source with thousands of objects is
	// large, so that one report may take the API server half a second: pauses are at least reportShare times as long.
	reportEvery = 2 * time.Second
	reportShare = 20
)

// parallelWrites is the default of Applier.Parallel.
func parallelWrites() int { return writesPerCore * runtime.GOMAXPROCS(0) }

// progress is one apply: how many objects are done, and whether it goes on. An apply that takes long writes the number
// of objects to the status of its GitSource. No decision depends on it.
type progress struct {
	client   client.Client
	now      func() time.Time
	src      *v1alpha1.GitSource
	parallel int
	// overtaken is closed when the apply should end; nil if it should not.
	overtaken <-chan struct{}

	mu sync.Mutex
	// counts are the numbers of this phase.
	counts v1alpha1.ApplyProgress
	// next is when the next report is due. silent is true while one is written, and after one failed.
	next   time.Time
	silent bool
}

// progress returns the progress of an apply that begins now.
func (a *Applier) progress(src *v1alpha1.GitSource, revisionName string, overtaken <-chan struct{}) *progress {
	now := a.Now()
	parallel := a.Parallel
	if parallel == 0 {
		parallel = parallelWrites()
	}
	return &progress{
		client: a.Client, now: a.Now, src: src, parallel: parallel, overtaken: overtaken,
		counts: v1alpha1.ApplyProgress{Revision: revisionName, Began: metav1.NewTime(now)},
		next:   now.Add(reportEvery),
	}
}

// phase begins a phase with a number of objects.
func (p *progress) phase(phase v1alpha1.ApplyPhase, objects int) {
	p.counts.Phase, p.counts.Objects, p.counts.Done = phase, int32(objects), 0
}

// each calls a function for each change, with its index, for several changes at a time. After an error, and after the
// apply was overtaken, each calls it for no further change. It returns the error of the first of the changes that
// failed, once all calls have ended: no request is under way then, so nothing is written after a caller has compared
// the cluster with a revision.
func (p *progress) each(ctx context.Context, changes []change, do func(ctx context.Context, i int) error) error {
	errs := make([]error, len(changes))
	var next int
	stopped := false
	var mu sync.Mutex
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(changes) || stopped || p.isOvertaken() {
			return 0, false
		}
		next++
		return next - 1, true
	}
	work := func() {
		for i, ok := take(); ok; i, ok = take() {
			if errs[i] = do(ctx, i); errs[i] != nil {
				mu.Lock()
				stopped = true
				mu.Unlock()
				return
			}
			p.done(ctx)
		}
	}
	var group sync.WaitGroup
	for range min(p.parallel, len(changes)) - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if next < len(changes) {
		return ErrOvertaken
	}
	return nil
}

func (p *progress) isOvertaken() bool {
	select {
	case <-p.overtaken:
		return true
	default:
		return false
	}
}

// done counts an object, and reports the number if that is due. The other calls go on meanwhile.
func (p *progress) done(ctx context.Context) {
	p.mu.Lock()
	p.counts.Done++
	now := p.now()
	if p.silent || now.Before(p.next) {
		p.mu.Unlock()
		return
	}
	p.silent = true
	p.counts.Reported = metav1.NewTime(now)
	counts := p.counts
	p.mu.Unlock()
	err := p.report(ctx, counts)
	p.mu.Lock()
	defer p.mu.Unlock()
	after := p.now()
	p.silent, p.next = err != nil, after.Add(max(reportEvery, reportShare*after.Sub(now)))
}

// report writes the numbers to the status of the GitSource. It fails if anybody else changed the GitSource since it was
// read, because the apply would overwrite that change at its end.
func (p *progress) report(ctx context.Context, counts v1alpha1.ApplyProgress) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": p.src.ResourceVersion},
		"status":   map[string]any{"progress": counts},
	})
	if err != nil {
		return err
	}
	written := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: p.src.Name}}
	if err := p.client.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	p.src.ResourceVersion = written.ResourceVersion
	p.src.Status.Progress = written.Status.Progress
	return nil
}
