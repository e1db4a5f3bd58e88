package console

import (
	"context"
	"errors"
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
// about with their own token, before the first state and then again and again, and a watch reads no more than its users
// may read, even if the one whose token reads got a further right.
type watches struct {
	mu  sync.Mutex
	all map[kube.Access]*watch
}

// watch is shared by users who may read the same.
type watch struct {
	feed *Feed[*state]
	// readers are the users; the first one's token reads. At first, they are in the order in which they came.
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
	access func(context.Context) (kube.Access, error)
	follow func(context.Context, *rest.Config, client.Client, kube.Receiver) error
}

const (
	// accessAge is how long an answer about what a user may read counts.
	accessAge = 30 * time.Second
	// longestDoubt is how long the last answer counts while the API server does not answer.
	longestDoubt = 5 * time.Minute
	// accessAgain is the pause after a failed attempt, and between two watches of one user.
	accessAgain = time.Second
	// refusedAgain is the pause before a user who may read nothing is asked about again.
	refusedAgain = 3 * time.Second
)

// source returns the states of the cluster that a user may see.
func (w *watches) source(u user) FeedSource[*state] {
	return func(ctx context.Context, publish func(*state, error)) {
		problem := ""
		fail := func(err error, pause time.Duration) {
			if text := err.Error(); text != problem {
				problem = text
				publish(nil, err)
			}
			sleep(ctx, pause)
		}
		for ctx.Err() == nil {
			access, err := u.access(ctx)
			switch {
			case apierrors.IsUnauthorized(err):
				u.unauthorized()
				fail(err, accessAgain)
			case err != nil:
				fail(err, accessAgain)
			case access.Check() != nil:
				fail(access.Check(), refusedAgain)
			default:
				problem = ""
				w.read(ctx, access, u, publish)
				if ctx.Err() == nil {
					publish(nil, errForget) // The user may no longer see it.
				}
				sleep(ctx, accessAgain)
			}
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
	var version uint64
	var last *state
	for {
		s, err := of.feed.Next(ctx, version)
		if err != nil || ctx.Err() != nil {
			return
		}
		if s.Known && s.State != last {
			publish(s.State, nil)
		}
		if s.Problem != nil {
			publish(nil, s.Problem)
		}
		version, last = s.Version, s.State
	}
}

// whileAccess returns when the user's access is another one, or unknown. While the API server does not answer, the last
// answer counts for some time.
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
		now, err := r.access(r.ctx)
		switch {
		case apierrors.IsUnauthorized(err):
			r.unauthorized()
			return
		case err == nil && now == access:
			known = time.Now()
		case err == nil, !isOutage(err), time.Since(known) > longestDoubt:
			return
		default:
			sleep(r.ctx, accessAgain)
		}
	}
}

// isOutage reports whether an error says nothing about the user: the API server does not answer, or not now.
func isOutage(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

func (w *watches) join(access kube.Access, r *reader) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.all[access]
	if of == nil {
		of = &watch{came: make(chan struct{})}
		of.feed = NewFeed(w.follow(of, access), 0)
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

// follow reads with the token of one reader after the other. When one leaves or cannot read, the last state stays until
// another one has read the cluster.
func (w *watches) follow(of *watch, access kube.Access) FeedSource[*state] {
	return func(ctx context.Context, publish func(*state, error)) {
		p := &passage{all: w, of: of, publish: publish}
		for ctx.Err() == nil {
			r := w.first(ctx, of)
			if r == nil {
				return
			}
			reading, cancel := context.WithCancel(ctx)
			unlink := context.AfterFunc(r.ctx, cancel)
			p.reader, p.giveUp = r, cancel
			_ = r.follow(reading, r.config, access.Client(r.client), p) // A passage returns no error.
			unlink()
			cancel()
			if p.failed > 0 {
				sleep(ctx, accessAgain)
			}
		}
	}
}

// passage passes on what a reader's token reads. After a problem, that of another reader is tried, and the problem is
// told when none could read.
type passage struct {
	all     *watches
	of      *watch
	publish func(*state, error)

	reader *reader
	giveUp func()
	// failed is how many attempts failed since the last state, and told the last problem.
	failed int
	told   string
	last   *state
}

// Due returns false, because the age of an unchanged state changes no page.
func (p *passage) Due(time.Time) bool { return false }

// Show passes on a state. The heartbeats of daemons are those of the last state until they have been read again.
func (p *passage) Show(_ context.Context, c fleet.Cluster, _ time.Time) error {
	if c.Daemons == nil && c.DaemonsNote == "" && p.last != nil {
		c.Daemons, c.Denied, c.Notifications = p.last.Daemons, p.last.Denied, p.last.Notifications
	}
	p.failed, p.told, p.last = 0, "", &state{Cluster: c}
	p.publish(p.last, nil)
	return nil
}

// errRefused is told instead of a refusal, which names the user whose token read.
var errRefused = errors.New("reading the cluster: the API server refuses a read that it allows by its own answer " +
	"about your rights; its audit log says which one. The console tries again every second")

// Problem lets another reader try.
func (p *passage) Problem(err error) error {
	p.failed++
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || errors.Is(err, kube.ErrRefused) {
		err = errRefused
		select {
		case p.reader.doubt <- struct{}{}:
		default:
		}
	}
	if others := p.all.putLast(p.of, p.reader); others > 0 {
		p.giveUp()
		if p.failed <= others {
			return nil
		}
	}
	if text := err.Error(); text != p.told {
		p.told = text
		p.publish(nil, err)
	}
	return nil
}

// putLast lets all other readers of a watch come before this one, and returns how many there are.
func (w *watches) putLast(of *watch, r *reader) (others int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := slices.Index(of.readers, r); at >= 0 {
		of.readers = append(slices.Delete(of.readers, at, at+1), r)
		return len(of.readers) - 1
	}
	return len(of.readers)
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

// sleep waits, but not after the end of the context.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
