package up

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/standalone/supervise"
)

const (
	// look is the pause between two questions to what is starting.
	look = 100 * time.Millisecond
	// readyLimit is for a machine that is busy with a build at the same time.
	readyLimit = 2 * time.Minute
	// aliveLimit is short: what comes later comes without being waited for.
	aliveLimit = 30 * time.Second
	// maxDeaths of one process in a start are no accident.
	maxDeaths = 3
	// shownLines of a log are enough to see what is wrong.
	shownLines = 8
)

// untilReady waits for the API server, and gives up early when it or etcd keeps dying.
func (s *session) untilReady(ctx context.Context) error {
	var last error
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); {
		if last = s.api.ready(ctx); last == nil {
			return nil
		}
		for _, name := range []string{"etcd", "kube-apiserver"} {
			if s.sup.Deaths(name) >= maxDeaths {
				return fmt.Errorf("%s keeps dying; the end of %s:\n%s", name, s.sup.Log(name), supervise.Tail(s.sup.Log(name), shownLines))
			}
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	log := s.sup.Log("kube-apiserver")
	return fmt.Errorf("the API server is not ready after %s: %w; the end of %s:\n%s", readyLimit, last, log, supervise.Tail(log, shownLines))
}

// untilAlive waits a while for the hosts and the Ignition server. What is late
// is said, and no reason to stop.
func (s *session) untilAlive(ctx context.Context) (string, error) {
	var late []string
	for deadline := time.Now().Add(aliveLimit); ; {
		late = s.late(ctx)
		if len(late) == 0 {
			return "", nil
		}
		if time.Now().After(deadline) {
			s.show.Line("not answering yet: " + strings.Join(late, ", ") + "; the logs may say why")
			return "", nil
		}
		if err := pause(ctx); err != nil {
			return "", err
		}
	}
}

func (s *session) late(ctx context.Context) []string {
	late, err := s.api.sleeping(ctx, s.o.hostNames(), s.begun)
	if err != nil {
		late = append(late, "the API server")
	}
	if s.ignition(ctx) != nil {
		late = append(late, "the Ignition server")
	}
	return late
}

func (s *session) ignition(ctx context.Context) error {
	client, err := trusting(filepath.Join(s.dir.Ignition(), "ca.crt"))
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	_, err = get(ctx, client, "https://"+s.o.ignitionAddress()+"/healthz")
	return err
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(look):
		return nil
	}
}
