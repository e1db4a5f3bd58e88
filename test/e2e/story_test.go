package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bunsen-os/bunsen/test/canary"
	"github.com/bunsen-os/bunsen/test/kstatus"
	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/test/lab/ostree"
)

// storyKey and testKey are where testscript keeps a story and its test.
type (
	storyKey struct{}
	testKey  struct{}
)

// story is everything that one story has started.
type story struct {
	parts
	work    string
	cluster *cluster
	git     *gitHost
	running map[string]*process
	// order in which processes were started, for their logs.
	order []string
	watch *watcher
	looks int
	// way is the server's way to the API server.
	way *way
	// passes are tokens of this test itself, by pool.
	passes map[string]string
	truth  *truth
	// statuses checks the conditions of sources and pools as long as the story lasts.
	statuses *kstatus.Watcher
	// finder finds the canaries, and processes records what programs run; nil before the command canaries.
	finder    *canary.Finder
	processes *canary.Processes
	laboratory
}

// laboratory are the machines of the lab, by name, in one network with a port, api, that leads to the API server.
type laboratory struct {
	hosts   map[string]*lab.Host
	images  map[string]*ostree.Host
	network *lab.Network
	api     string
	content contentServer
	// mirrors break off what serves files, by variable.
	mirrors map[string]*atomic.Value
}

// begin gives a story its control plane and its environment.
func begin(env *testscript.Env, p parts) error {
	s := &story{parts: p, work: env.WorkDir, running: map[string]*process{}, passes: map[string]string{}}
	env.Values[storyKey{}], env.Values[testKey{}] = s, env.T()
	env.Defer(func() { s.end(env.T()) })
	for _, v := range []string{
		"HOME=" + s.work, "PATH=" + strings.Join([]string{p.assets, p.bin, os.Getenv("PATH")},
			string(os.PathListSeparator)),
		"KUBECONFIG=" + filepath.Join(s.work, "admin.kubeconfig"), "KUBECACHEDIR=" + filepath.Join(s.work, ".kube"),
		"ROOT=" + p.root,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=Ada Lovelace",
		"GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ada Lovelace", "GIT_COMMITTER_EMAIL=ada@example.com",
	} {
		name, value, _ := strings.Cut(v, "=")
		env.Setenv(name, value)
	}
	var err error
	if s.cluster, err = startCluster(p, s.work); err != nil {
		return err
	}
	env.Setenv("APISERVER", s.cluster.env.Config.Host)
	env.Setenv("CONFIG", s.cluster.config)
	s.statuses, err = kstatus.Watch(s.cluster.dynamic, time.Now)
	return err
}

// end stops everything; a process that died of itself fails the story, and a failed story shows every log.
func (s *story) end(t testscript.T) {
	var dead []string
	for _, name := range s.order {
		p := s.running[name]
		if err := p.died(); err != nil {
			dead = append(dead, fmt.Sprintf("%s ended by itself: %v", name, err))
		}
		p.stop()
	}
	s.watch.stop()
	s.git.down()
	s.way.cut()
	if s.truth != nil {
		for _, w := range s.truth.routes {
			w.cut()
		}
	}
	broken := s.statuses.Stop()
	s.cluster.stop()
	tb, ok := t.(interface {
		Failed() bool
		Errorf(format string, args ...any)
	})
	if !ok {
		return
	}
	if len(dead) > 0 {
		tb.Errorf("%s", strings.Join(dead, "\n"))
	}
	if len(broken) > 0 {
		tb.Errorf("statuses break rules of kstatus:\n%s", strings.Join(broken, "\n"))
	}
	if tb.Failed() {
		for _, name := range s.order {
			t.Log(fmt.Sprintf("--- log of %s ---\n%s", name, tail(s.running[name].log)))
		}
	}
}

// tail is the last part of a log.
func tail(path string) string {
	const limit = 12000
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(raw) > limit {
		raw = append([]byte("…"), raw[len(raw)-limit:]...)
	}
	return string(raw)
}

// poll asks until it is told yes, for what has no event to wait for. It waits three times as long as the answer took:
// many stories poll at the same time, and a question may be several processes.
func poll(limit time.Duration, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		asked := time.Now()
		done, err := ask()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, errors.Join(ctx.Err(), err))
		case <-time.After(min(max(20*time.Millisecond, 3*time.Since(asked)), 2*time.Second)):
		}
	}
}

// usage is the error of a command that was called wrongly.
func usage(text string) error { return fmt.Errorf("usage: %s", text) }
