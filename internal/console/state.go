package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// state is a state of the cluster with what follows from it. The pages of all who see the state share it: do not change
// it.
type state struct {
	fleet.Cluster

	mu     sync.Mutex
	fleet  *fleet.Fleet
	status *inspect.Status
	pools  map[string]poolAnswer
}

type poolAnswer struct {
	why inspect.Why
	err error
}

// answerAge is for how long what follows from a state counts: decisions depend on the time.
const answerAge = time.Second

// statesOf returns the states of a source of clusters.
func statesOf(source FeedSource[fleet.Cluster]) FeedSource[*state] {
	return func(ctx context.Context, publish func(*state, error)) {
		source(ctx, func(c fleet.Cluster, problem error) { publish(&state{Cluster: c}, problem) })
	}
}

// at returns the state with the decisions of a time, or of at most answerAge before or after it.
func (s *state) at(now time.Time) *fleet.Fleet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fleet == nil || now.Sub(s.fleet.Now).Abs() > answerAge {
		s.fleet, s.status, s.pools = fleet.New(s.Cluster, now), nil, map[string]poolAnswer{}
	}
	return s.fleet
}

// statusOf is inspect.StatusOf. The caller may change the nodes.
func (s *state) statusOf(f *fleet.Fleet) inspect.Status {
	s.mu.Lock()
	if s.fleet != f { // It has become too old.
		s.mu.Unlock()
		return inspect.StatusOf(f)
	}
	defer s.mu.Unlock()
	if s.status == nil {
		status := inspect.StatusOf(f)
		s.status = &status
	}
	out := *s.status
	out.Nodes = slices.Clone(out.Nodes)
	return out
}

// why is inspect.WhyPoolOf, with the time since which the reason holds.
func (s *state) why(f *fleet.Fleet, pool string) (inspect.Why, error) {
	s.mu.Lock()
	if s.fleet != f {
		s.mu.Unlock()
		return answerFor(f, pool)
	}
	defer s.mu.Unlock()
	a, known := s.pools[pool]
	if !known {
		a.why, a.err = answerFor(f, pool)
		s.pools[pool] = a
	}
	return a.why, a.err
}

func answerFor(f *fleet.Fleet, pool string) (inspect.Why, error) {
	why, err := inspect.WhyPoolOf(f, pool)
	if err == nil {
		why.FindSince(f)
	}
	return why, err
}
