package agent_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"

	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/test/lostanswer"
)

// lostWrites is how many of an update's writes lose their answers in turn, each in an update of its own; 0 for all.
var lostWrites = flag.Int("lost-writes", 5, "writes of an update whose answers are lost, in turn; 0 for all")

// loser loses the answer to one write of each update.
type loser struct {
	mu sync.Mutex
	// at is the number of the write to lose, counted from the begin of the update; n counts. lost is the lost write.
	at, n int
	lost  lostanswer.Write
}

// lose hangs up, or times out, by turns.
func (l *loser) lose(w lostanswer.Write) lostanswer.Loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n++; l.n != l.at {
		return lostanswer.Nothing
	}
	l.lost = w
	if l.at%2 == 0 {
		return lostanswer.TimeOut
	}
	return lostanswer.HangUp
}

// begin begins an update whose write number at gets no answer, and returns how many writes the last update had.
func (l *loser) begin(at int) (writes int, lost lostanswer.Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes, lost = l.n, l.lost
	l.at, l.n, l.lost = at, 0, lostanswer.Write{}
	return writes, lost
}

// TestADaemonWhoseWritesGetNoAnswerUpdatesOnce updates a node again and again, and loses the answer to another write to
// the real API server each time. Each update drains the node once and reboots it once.
func TestADaemonWhoseWritesGetNoAnswerUpdatesOnce(t *testing.T) {
	s := startAPIServer(t)
	m := hosttest.NewMachine()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output()), nil))
	losing := &loser{}
	config := lostanswer.NewAPI(t, s.node, losing.lose)
	cluster := kube.NewConnection("worker-0", func() (*rest.Config, error) { return config, nil })
	changed := cluster.Watch(ctx, log)
	ended := make(chan error, 1)
	go func() { // boot after boot
		for {
			a := agent.New(agent.Config{
				Node: "worker-0", Cluster: cluster, Host: m.Host(), Log: log,
				Events: cluster.NewRecorder(ctx, log), Status: cluster.NewStatusPublisher(ctx, log),
				Health: &agent.HealthOptions{
					API: elsewhere(cluster), AfterReboot: 5 * time.Second, Settle: time.Millisecond,
				},
			})
			if err := a.Run(ctx, changed); !errors.Is(err, agent.ErrRebooting) {
				ended <- err
				return
			}
		}
	}()
	update := func(i int) {
		name := fmt.Sprintf("rendered-%d", i)
		s.config(name, "/etc/motd", fmt.Sprint(i))
		s.annotate(v1alpha1.DesiredConfigAnnotation, name)
		s.await(name, func(n report.Node) bool {
			return n.State == v1alpha1.StateDone && n.Current == name && n.LastAppliedDrain == "uncordon-"+name &&
				n.DesiredDrain == n.LastAppliedDrain
		})
		if text, err := m.Host().Files.Read("/etc/motd"); err != nil || string(text) != fmt.Sprint(i) {
			t.Fatalf("%s: the machine has %q, %v", name, text, err)
		}
	}
	update(0)
	losing.begin(0)
	update(1)
	writes, _ := losing.begin(0)
	before := rebootsOf(m)
	step := 1
	if *lostWrites > 0 {
		step = max(1, writes / *lostWrites)
	}
	updates := 0
	for at := 1; at <= writes; at += step {
		losing.begin(at)
		update(2 + updates)
		updates++
		_, lost := losing.begin(0)
		t.Logf("update %d: no answer to write %d, %s %s", updates, at, lost.Method, lost.Path)
		if is := rebootsOf(m) - before; is != updates {
			t.Fatalf("after %d updates, of which the last lost the answer to %s %s: %d reboots", updates, lost.Method,
				lost.Path, is)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("an update has %d writes", writes)
}
