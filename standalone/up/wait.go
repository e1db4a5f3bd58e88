package up

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

const (
	// pollInterval is the pause between two checks.
	pollInterval = 100 * time.Millisecond
	// readyLimit is the maximum time until the API server is ready. It is long enough for a host that is busy with a
	// build.
	readyLimit = 2 * time.Minute
	// aliveLimit is the maximum time until the hosts, the Ignition server and the console are ready. It is short,
	// because the start can continue without them.
	aliveLimit = 30 * time.Second
	// maxExits is how often one process may end during a start.
	maxExits = 3
	// shownLines is how many of the last lines of a log an error contains.
	shownLines = 8
)

// untilReady waits for the API server. untilReady returns early if the API server or etcd keeps exiting.
func (s *session) untilReady(ctx context.Context) error {
	var last error
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); {
		if last = s.api.ready(ctx); last == nil {
			return nil
		}
		for _, name := range []string{"etcd", "kube-apiserver"} {
			if s.sup.Exits(name) >= maxExits {
				return fmt.Errorf("%s keeps exiting; the end of %s:\n%s", name, s.sup.Log(name),
					plane.TailLog(s.sup.Log(name), shownLines))
			}
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	log := s.sup.Log("kube-apiserver")
	return fmt.Errorf("the API server is not ready after %s: %w; the end of %s:\n%s", readyLimit, last, log,
		plane.TailLog(log, shownLines))
}

// untilAlive waits a while for the hosts, the Ignition server and the console. untilAlive shows which of them are late,
// and continues.
func (s *session) untilAlive(ctx context.Context) (string, error) {
	var late []string
	for deadline := time.Now().Add(aliveLimit); ; {
		late = s.late(ctx)
		if len(late) == 0 {
			return "", nil
		}
		if time.Now().After(deadline) {
			s.show.Line("not ready yet: " + strings.Join(late, ", ") + "; see the logs")
			return "", nil
		}
		if err := pause(ctx); err != nil {
			return "", err
		}
	}
}

func (s *session) late(ctx context.Context) []string {
	late, err := s.api.notReady(ctx, s.o.hostNames(), s.begun)
	if err != nil {
		late = append(late, "the API server")
	}
	if s.ignition(ctx) != nil {
		late = append(late, "the Ignition server")
	}
	if _, err := os.Stat(consoleAddress(s.dir)); err != nil {
		late = append(late, "the console")
	}
	return late
}

func (s *session) ignition(ctx context.Context) error {
	client, err := newHTTPClient(filepath.Join(s.dir.Ignition(), "ca.crt"))
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
	case <-time.After(pollInterval):
		return nil
	}
}
