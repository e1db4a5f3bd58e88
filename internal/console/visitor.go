package console

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli/kube"

	"github.com/bunsen-os/bunsen/internal/console/view"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

const (
	// for which watches continue after the user has closed the last page
	linger = time.Minute
	// for a page to wait for the first state of the cluster
	firstState  = 10 * time.Second
	mostStreams = 64
)

// visitor is a signed-in user with the watches that her rights allow.
type visitor struct {
	name string
	// api sends each request with the user's own rights; nil in some tests
	api  client.Client
	feed *Feed[*state]
	// readOnly: the pages have no actions
	readOnly bool
	rights   rights
	notes    notes

	timesMu sync.Mutex
	times   *kube.StepTimes
	details view.DetailCache
	// in a clone on the user's machine; nil if there is none
	lines func(ctx context.Context, config string) view.ContentLines

	mu       sync.Mutex
	streams  int
	drawings map[string]*drawing
}

// drawing is the page of one path, which all its streams share.
type drawing struct {
	streams int
	version uint64
	// closed when the page is complete
	done   chan struct{}
	result drawn
}

type drawn struct {
	page   view.Page
	digest string
	err    error
}

// newVisitor returns a visitor whose source follows the cluster with the rights of the client.
func newVisitor(name string, api client.Client, source FeedSource[*state]) *visitor {
	return &visitor{
		name: name, api: api, feed: NewFeed(source, linger), times: kube.NewStepTimes(api),
		drawings: map[string]*drawing{},
	}
}

// publisher passes on states, and each problem once.
type publisher struct {
	publish func(fleet.Cluster, error)
	problem string
}

// Due returns false, because the age of an unchanged state changes no page.
func (p *publisher) Due(time.Time) bool { return false }

// Show publishes a state.
func (p *publisher) Show(_ context.Context, cluster fleet.Cluster, _ time.Time) error {
	p.problem = ""
	p.publish(cluster, nil)
	return nil
}

// Problem publishes a problem unless it is the last one.
func (p *publisher) Problem(err error) error {
	if text := err.Error(); text != p.problem {
		p.problem = text
		p.publish(fleet.Cluster{}, err)
	}
	return nil
}

type pinned struct {
	*visitor
	snapshot Snapshot[*state]
}

// Name returns the name of the user.
func (p pinned) Name() string { return p.name }

// Reader returns a client that reads from the API server.
func (p pinned) Reader() client.Reader { return p.api }

// Cluster returns the state, or the problem if there is no state.
func (p pinned) Cluster(context.Context) (fleet.Cluster, error) {
	if !p.snapshot.Known {
		return fleet.Cluster{}, p.snapshot.Problem
	}
	return p.snapshot.State.Cluster, nil
}

// fleetOf returns the state that a viewer sees, with the decisions of this time.
func fleetOf(ctx context.Context, v Viewer, now time.Time) (*fleet.Fleet, error) {
	c, err := v.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	if p, ok := v.(pinned); ok {
		return p.snapshot.State.at(now), nil
	}
	return fleet.New(c, now), nil
}

// statusOf returns the status that `bunsen status` prints.
func statusOf(ctx context.Context, v Viewer, f *fleet.Fleet) inspect.Status {
	p, ok := v.(pinned)
	if !ok {
		return inspect.StatusOf(f)
	}
	status := p.snapshot.State.statusOf(f)
	p.timesMu.Lock()
	defer p.timesMu.Unlock()
	p.times.FillStatus(ctx, &status)
	return status
}

// whyPool returns the answer of `bunsen why` about a pool, with the time since which the reason holds.
func whyPool(v Viewer, f *fleet.Fleet, pool string) (inspect.Why, error) {
	if p, ok := v.(pinned); ok {
		return p.snapshot.State.why(f, pool)
	}
	return answerFor(f, pool)
}

// errNoState: the cluster sends neither objects nor an error.
var errNoState = fmt.Errorf("the cluster did not send its objects within %s; this page tries again", firstState)

// draw makes a page whose first region says why the state is not current.
func (v *visitor) draw(r *http.Request, page pageFunc, s Snapshot[*state]) drawn {
	p, err := page(r.Context(), pinned{v, s}, r, time.Now())
	if err != nil {
		return drawn{err: err}
	}
	problem := ""
	if s.Problem != nil {
		problem = "This page shows an earlier state, because the cluster does not send changes. It continues by " +
			"itself. " + s.Problem.Error()
	}
	p.Regions = append([]view.Region{view.Problem(problem)}, p.Regions...)
	return drawn{page: p, digest: view.RegionDigest(p.Regions)}
}

// state returns the newest state, for which it waits if there is none yet.
func (v *visitor) state(ctx context.Context) (fleet.Cluster, error) {
	defer v.feed.Hold()()
	ctx, cancel := context.WithTimeout(ctx, firstState)
	defer cancel()
	s, err := v.feed.Next(ctx, 0)
	if err != nil {
		s.Problem = errNoState
	}
	return pinned{v, s}.Cluster(ctx)
}

// first makes a page from the newest state, for which it waits if there is none yet.
func (v *visitor) first(r *http.Request, page pageFunc) drawn {
	defer v.feed.Hold()()
	ctx, cancel := context.WithTimeout(r.Context(), firstState)
	defer cancel()
	s, err := v.feed.Next(ctx, 0)
	if err != nil {
		s.Problem = errNoState
	}
	return v.draw(r, page, s)
}

// join counts a stream of a path; false if the session has too many.
func (v *visitor) join(path string) (leave func(), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.streams >= mostStreams {
		return nil, false
	}
	v.streams++
	if v.drawings[path] == nil {
		v.drawings[path] = &drawing{}
	}
	v.drawings[path].streams++
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.streams--
		if v.drawings[path].streams--; v.drawings[path].streams == 0 {
			delete(v.drawings, path)
		}
	}, true
}

// shared makes the page of a path once for each state, for all streams that joined. It may return the page of a later
// state.
func (v *visitor) shared(path string, s Snapshot[*state], draw func() drawn) drawn {
	v.mu.Lock()
	d := v.drawings[path]
	if d.done == nil || d.version < s.Version {
		done := make(chan struct{})
		next := &drawing{streams: d.streams, version: s.Version, done: done}
		v.drawings[path] = next
		v.mu.Unlock()
		defer close(done)
		next.result = draw()
		return next.result
	}
	v.mu.Unlock()
	<-d.done
	return d.result
}
