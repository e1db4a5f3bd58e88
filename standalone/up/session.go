package up

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/standalone/configrepo"
	"github.com/bunsen-os/bunsen/standalone/datadir"
	"github.com/bunsen-os/bunsen/standalone/ports"
	"github.com/bunsen-os/bunsen/standalone/progress"
	"github.com/bunsen-os/bunsen/standalone/supervise"
)

// session is one run, from lock to stop.
type session struct {
	o     options
	dir   datadir.Dir
	show  *progress.Printer
	sup   *supervise.Supervisor
	how   recipes
	api   *apiClient
	begun time.Time
}

func newSession(o options, dir datadir.Dir, show *progress.Printer) *session {
	return &session{
		o: o, dir: dir, show: show, begun: time.Now(),
		sup: supervise.New(supervise.Config{
			Logs: dir.Logs(), Run: dir.Run(), Home: string(dir),
			Backoff: supervise.DefaultBackoff(), Report: show.Line,
		}),
	}
}

// prepare finds out what is in the way. Nothing runs and nothing is kept yet.
func (s *session) prepare() error {
	left, err := supervise.Sweep(s.dir.Run(), 5*time.Second)
	for _, p := range left {
		s.show.Line(fmt.Sprintf("%s (pid %d) was left over from an earlier run: stopped", p.Name, p.PID))
	}
	if err != nil {
		return err
	}
	if err := preflight(s.o); err != nil {
		return err
	}
	return ports.Check(s.o.portList())
}

// step is one line of the progress.
type step struct {
	name string
	do   func(ctx context.Context) (note string, err error)
}

func (s *session) steps() []step {
	steps := []step{
		{"keys and certificates", s.makeIdentities},
		{"etcd and the API server", s.startAPI},
		{"controller manager and scheduler", s.start(recipes.upstream)},
	}
	if s.o.bare {
		return steps
	}
	if s.o.source.repo == "" {
		steps = append([]step{{"configuration repository", s.makeRepository}}, steps...)
	}
	apply := applier{o: s.o, dir: s.dir}
	return append(steps,
		step{"kinds and rights", apply.config},
		step{"the source and the hosts' Node objects", apply.objects},
		step{"controllers, Ignition server and simulated hosts", s.startBunsen},
	)
}

func (s *session) run(ctx context.Context) error {
	for _, st := range s.steps() {
		err := s.show.Step(st.name, func() (string, error) { return st.do(ctx) })
		if err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
	}
	return nil
}

func (s *session) makeIdentities(context.Context) (string, error) {
	ids, err := identify(s.o, s.dir, time.Now())
	if err != nil {
		return "", err
	}
	s.how = recipes{o: s.o, dir: s.dir, ids: ids}
	s.api, err = newAPIClient(s.o.apiURL(), ids.ca, filepath.Join(s.dir.PKI(), "admin"))
	return "", err
}

func (s *session) makeRepository(ctx context.Context) (string, error) {
	created, err := configrepo.Create(ctx, s.dir.Repository(), s.o.examples)
	switch {
	case err != nil:
		return "", err
	case created:
		return "made from " + filepath.Base(s.o.examples), nil
	default:
		return "kept", nil
	}
}

func (s *session) startAPI(ctx context.Context) (string, error) {
	// The API server waits for etcd by itself.
	for _, spec := range []supervise.Spec{s.how.database(), s.how.apiServer()} {
		if err := s.sup.Start(spec); err != nil {
			return "", err
		}
	}
	return "", s.untilReady(ctx)
}

func (s *session) start(specs func(recipes) []supervise.Spec) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		for _, spec := range specs(s.how) {
			if err := s.sup.Start(spec); err != nil {
				return "", err
			}
		}
		return "", nil
	}
}

func (s *session) startBunsen(ctx context.Context) (string, error) {
	if _, err := s.start(recipes.bunsen)(ctx); err != nil {
		return "", err
	}
	return s.untilAlive(ctx)
}
