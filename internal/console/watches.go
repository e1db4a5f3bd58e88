package console

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// watches are those of all users who have a page open. Users who may read the same share the watches of one of them, so
// that a further user costs nearly nothing. Nobody sees what the API server would refuse them: each user is asked
// about with their own token, before the first state and then again and again.
type watches struct {
	mu  sync.Mutex
	all map[kube.Access]*watch
}

// watch is shared by users who may read the same.
type watch struct {
	feed *Feed[*state]
	// readers are the users in the order in which they came. The first one's token reads.
	readers []*reader
	// came is closed when a reader comes.
	came chan struct{}
}

// reader is a user who reads a watch until the context ends.
type reader struct {
	user
	ctx context.Context
	// doubt asks for an early look at the user's access.
	doubt chan struct{}
}

// user is the connection of a user to the API server.
type user struct {
	config *rest.Config
	client client.Client
	// unauthorized is called when the API server no longer accepts the user.
	unauthorized func()
	// access is kube.AccessOf and follow kube.FollowObjects, except in tests.
	access func(context.Context, client.Client) (kube.Access, error)
	follow func(context.Context, *rest.Config, client.Client, kube.Receiver) error
}

const (
	// accessAge is how long an answer about what a user may read counts.
	accessAge = 30 * time.Second
	// longestDoubt is how long the last answer counts while there is none.
	longestDoubt = 5 * time.Minute
	// accessAgain is the pause after a failed attempt.
	accessAgain = time.Second
)

// source returns the states of the cluster that a user may see.
func (w *watches) source(u user) FeedSource[*state] {
	return func(ctx context.Context, publish func(*state, error)) {
		problem := ""
		for ctx.Err() == nil {
			access, err := u.access(ctx, u.client)
			if err == nil {
				problem = ""
				w.read(ctx, access, u, publish)
				continue
			}
			if apierrors.IsUnauthorized(err) {
				u.unauthorized()
			}
			if text := err.Error(); text != problem {
				problem = text
				publish(nil, err)
			}
			sleep(ctx, accessAgain)
		}
	}
}

// read passes on the states of a shared watch while the user has this access.
func (w *watches) read(ctx context.Context, access kube.Access, u user, publish func(*state, error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &reader{user: u, ctx: ctx, doubt: make(chan struct{}, 1)}
	of := w.join(access, r)
	defer w.leave(access, r)
	defer of.feed.Hold()()
	go func() {
		defer cancel()
		r.whileAccess(access)
	}()
	for version := uint64(0); ; {
		s, err := of.feed.Next(ctx, version)
		if err != nil {
			return
		}
		if s.Known && (s.Problem == nil || version == 0) {
			publish(s.State, nil)
		}
		if s.Problem != nil && !apierrors.IsUnauthorized(s.Problem) { // That is about the user whose token reads.
			publish(nil, s.Problem)
		}
		version = s.Version
	}
}

// whileAccess returns when the user's access is another one, or has been unknown for long.
func (r *reader) whileAccess(access kube.Access) {
	known := time.Now()
	for {
		wait := time.NewTimer(accessAge)
		select {
		case <-r.ctx.Done():
		case <-wait.C:
		case <-r.doubt:
		}
		wait.Stop()
		if r.ctx.Err() != nil {
			return
		}
		now, err := r.access(r.ctx, r.client)
		switch {
		case apierrors.IsUnauthorized(err):
			r.unauthorized()
			return
		case err == nil && now != access, err != nil && time.Since(known) > longestDoubt:
			return
		case err == nil:
			known = time.Now()
		default:
			sleep(r.ctx, accessAgain)
		}
	}
}

func (w *watches) join(access kube.Access, r *reader) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.all[access]
	if of == nil {
		of = &watch{came: make(chan struct{})}
		of.feed = NewFeed(w.follow(of), 0)
		if w.all == nil {
			w.all = map[kube.Access]*watch{}
		}
		w.all[access] = of
	}
	of.readers = append(of.readers, r)
	close(of.came)
	of.came = make(chan struct{})
	return of
}

// leave ends the watch with its last reader.
func (w *watches) leave(access kube.Access, r *reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.all[access]
	of.readers = slices.DeleteFunc(of.readers, func(other *reader) bool { return other == r })
	if len(of.readers) == 0 {
		delete(w.all, access)
		of.feed.Close()
	}
}

// follow reads with the token of one reader after the other. When one leaves, the last state stays until the next one
// has read the cluster.
func (w *watches) follow(of *watch) FeedSource[*state] {
	return func(ctx context.Context, publish func(*state, error)) {
		for ctx.Err() == nil {
			r := w.first(ctx, of)
			if r == nil {
				return
			}
			reading, cancel := context.WithCancel(ctx)
			unlink := context.AfterFunc(r.ctx, cancel)
			to := &publisher{publish: func(c fleet.Cluster, problem error) {
				if apierrors.IsUnauthorized(problem) || apierrors.IsForbidden(problem) {
					select {
					case r.doubt <- struct{}{}:
					default:
					}
				}
				publish(&state{Cluster: c}, problem)
			}}
			_ = r.follow(reading, r.config, r.client, to) // A publisher returns no error.
			unlink()
			cancel()
		}
	}
}

// first waits for a reader; nil if the context ends before.
func (w *watches) first(ctx context.Context, of *watch) *reader {
	for {
		w.mu.Lock()
		at := slices.IndexFunc(of.readers, func(r *reader) bool { return r.ctx.Err() == nil })
		came := of.came
		var r *reader
		if at >= 0 {
			r = of.readers[at]
		}
		w.mu.Unlock()
		if r != nil {
			return r
		}
		select {
		case <-ctx.Done():
			return nil
		case <-came:
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
