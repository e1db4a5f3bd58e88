package trust

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// DefaultInterval is the mean time between two requests. Each request is at a random moment between two thirds and four
// thirds of it.
const DefaultInterval = 30 * time.Second

// Source is where a node reads what it trusts.
type Source interface {
	// Trust returns what the node trusts; nil if that is the known revision.
	Trust(ctx context.Context, known string) (*v1alpha1.NodeTrust, error)
}

// Syncer reads what a node trusts, and writes it. Run may be called while Sync runs.
type Syncer struct {
	host     host.Host
	source   Source
	log      *slog.Logger
	interval time.Duration
	changed  chan struct{}

	mu     sync.Mutex
	latest *v1alpha1.NodeTrust // nil until an answer is valid
	unread string              // why there was no answer, as logged last

	// The other fields belong to the goroutine of Sync.
	paths    []string
	report   string
	retry    backoff
	restored []time.Time
}

// NewSyncer returns a Syncer for a host. The interval 0 is DefaultInterval.
func NewSyncer(h host.Host, source Source, interval time.Duration, log *slog.Logger) *Syncer {
	if interval <= 0 {
		interval = DefaultInterval
	}
	return &Syncer{host: h, source: source, log: log, interval: interval, changed: make(chan struct{}, 1)}
}

// Changed holds at most one signal. It fires when the server has sent something new.
func (s *Syncer) Changed() <-chan struct{} { return s.changed }

// Run asks the server until the context ends.
func (s *Syncer) Run(ctx context.Context) {
	for pause := rand.N(s.interval/6 + 1); ; pause = s.interval*2/3 + rand.N(s.interval*2/3+1) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		s.ask(ctx)
	}
}

// ask asks the server once. An invalid answer changes nothing.
func (s *Syncer) ask(ctx context.Context) {
	known := ""
	if s.latest != nil { // only this goroutine writes it
		known = s.latest.Revision
	}
	answer, err := s.source.Trust(ctx, known)
	if err == nil && answer != nil {
		err = Check(*answer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != s.unread && ctx.Err() == nil {
		if s.unread = text; err != nil {
			s.log.Warn("cannot read what the node trusts; the earlier files stay", "err", err)
		} else {
			s.log.Info("reading what the node trusts from the machine-config-server")
		}
	}
	if err != nil || answer == nil {
		return
	}
	s.latest = answer
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// answer returns the newest valid answer; nil before the first one.
func (s *Syncer) answer() *v1alpha1.NodeTrust {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}
