package up

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

// session is one run of the control plane, from the lock of the data directory to the stop.
type session struct {
	o         options
	dir       plane.Dir
	show      *progress
	sup       *plane.Supervisor
	processes processes
	api       *apiClient
	begun     time.Time
}

func newSession(o options, dir plane.Dir, show *progress) *session {
	return &session{
		o: o, dir: dir, show: show, begun: time.Now(),
		sup: plane.NewSupervisor(plane.SupervisorConfig{
			Logs: dir.Logs(), Run: dir.Run(), Home: string(dir),
			Backoff: plane.DefaultBackoff(), Report: show.Line,
		}),
	}
}

// prepare checks for reasons that prevent a start, before the session runs a process or writes a file.
func (s *session) prepare() error {
	left, err := plane.StopLeftovers(s.dir.Run(), 5*time.Second)
	for _, p := range left {
		s.show.Line(fmt.Sprintf("stopped %s (pid %d), left over from an earlier run", p.Name, p.PID))
	}
	if err != nil {
		return err
	}
	if err := preflight(s.o); err != nil {
		return err
	}
	return plane.CheckPorts(s.o.portList())
}

// step is one step of the start.
type step struct {
	name string
	do   func(ctx context.Context) (note string, err error)
}

func (s *session) steps() []step {
	steps := []step{
		{"keys and certificates", s.makeIdentities},
		{"etcd and the API server", s.startAPI},
		{"controller manager and scheduler", s.start(processes.upstream)},
	}
	if s.o.bare {
		return steps
	}
	if s.o.source.repo == "" {
		steps = append([]step{{"configuration repository", s.makeRepository}}, steps...)
	}
	apply := applier{o: s.o, dir: s.dir}
	return append(steps,
		step{"CRDs and RBAC", apply.config},
		step{"source and Node objects", apply.objects},
		step{"controller, Ignition server and simulated hosts", s.startBunsen},
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
	ids, err := createIdentities(s.o, s.dir, time.Now())
	if err != nil {
		return "", err
	}
	s.processes = processes{o: s.o, dir: s.dir, ids: ids}
	s.api, err = newAPIClient(s.o.apiURL(), ids.ca, filepath.Join(s.dir.PKI(), "admin"))
	return "", err
}

func (s *session) makeRepository(ctx context.Context) (string, error) {
	created, err := createRepository(ctx, s.dir.Repository(), s.o.examples)
	switch {
	case err != nil:
		return "", err
	case created:
		return "created from " + filepath.Base(s.o.examples), nil
	default:
		return "kept", nil
	}
}

func (s *session) startAPI(ctx context.Context) (string, error) {
	// Both processes start at once, because the API server itself waits for etcd.
	for _, spec := range []plane.ProcessSpec{s.processes.database(), s.processes.apiServer()} {
		if err := s.sup.Start(spec); err != nil {
			return "", err
		}
	}
	return "", s.untilReady(ctx)
}

func (s *session) start(specs func(processes) []plane.ProcessSpec) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		for _, spec := range specs(s.processes) {
			if err := s.sup.Start(spec); err != nil {
				return "", err
			}
		}
		return "", nil
	}
}

func (s *session) startBunsen(ctx context.Context) (string, error) {
	if err := os.Remove(consoleAddress(s.dir)); err != nil && !os.IsNotExist(err) { // that of a killed run
		return "", fmt.Errorf("removing an old address of the console: %w", err)
	}
	if _, err := s.start(processes.bunsen)(ctx); err != nil {
		return "", err
	}
	return s.untilAlive(ctx)
}
