package trust

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/secrets"
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

const (
	// minRetry is the pause after a failure; it doubles up to maxRetry.
	minRetry, maxRetry = 30 * time.Second, 10 * time.Minute
	// maxRestored is how often within restoredTime the daemon restores files that another program changes.
	maxRestored, restoredTime = 3, 10 * time.Minute
)

// Turn is what one call of Sync needs from the agent.
type Turn struct {
	// Unconfigured is true if no config has ever been assigned to the machine. Without this and without a record of the
	// config in force, Sync waits, because a path may belong to a config.
	Unconfigured bool
	// Rules reads the disruption policy.
	Rules func(ctx context.Context) (plan.Rules, error)
	// OnStep is called after each step.
	OnStep func(step host.Step, undone bool)
	// Now is the time.
	Now time.Time
}

// backoff limits retries of one answer.
type backoff struct {
	key   string
	pause time.Duration
	next  time.Time
	why   string
}

// Report returns the value of v1alpha1.TrustReportAnnotation.
func (s *Syncer) Report() string { return s.report }

// Paths returns the files that the daemon wrote beside the config.
func (s *Syncer) Paths() []string { return s.paths }

// Sync brings the machine to the newest answer, or to its own copy of the last one. done is false if an update is under
// way, so that the caller calls it again after that. Sync logs a failure and reports it. The earlier files then stay.
func (s *Syncer) Sync(ctx context.Context, turn Turn) (done bool) {
	rec, err := s.host.Journal.Load()
	if err == nil && rec != nil {
		return false
	}
	var kept Kept
	if err == nil {
		kept, err = s.load()
	}
	if err == nil {
		err = s.sync(ctx, turn, kept)
	}
	if err != nil {
		s.log.Warn("cannot write what the node trusts; the earlier files stay", "err", err)
		s.report = Text((&Target{Kept: kept}).Report(err.Error(), turn.Now))
	}
	return true
}

// sync is Sync without an update under way. It returns an error only for a machine that it cannot read.
func (s *Syncer) sync(ctx context.Context, turn Turn, kept Kept) error {
	answer := kept.Answer
	if latest := s.answer(); latest != nil {
		answer = *latest
	}
	s.paths = kept.Files
	if len(kept.Files)+len(kept.Dirs)+len(kept.Answer.Files)+len(answer.Files) == 0 {
		s.report = ""
		return nil
	}
	t, err := s.target(ctx, turn, kept, answer)
	if err != nil || t == nil {
		return err
	}
	failed, err := s.apply(ctx, turn, t)
	if err != nil {
		return err
	}
	s.report = Text(t.Report(failed, turn.Now))
	if after, err := s.load(); err == nil {
		s.paths = after.Files
	}
	return nil
}

// load reads what the daemon wrote before.
func (s *Syncer) load() (Kept, error) {
	var kept Kept
	text, err := s.host.Files.Read(RecordPath)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err != nil {
		return kept, fmt.Errorf("reading %s: %w", RecordPath, err)
	}
	if err := json.Unmarshal(text, &kept); err != nil { // the next answer of the server replaces it
		s.log.Warn("ignoring the damaged record of what the node trusts", "path", RecordPath)
		return Kept{}, nil
	}
	return kept, nil
}

// target returns what the machine shall have; nil if it is not known yet which paths belong to a config.
func (s *Syncer) target(ctx context.Context, turn Turn, kept Kept,
	answer v1alpha1.NodeTrust,
) (*Target, error) {
	mc, err := apply.LoadRecord(s.host.Files)
	if err != nil || mc == nil && !turn.Unconfigured {
		return nil, err
	}
	at := plan.Desired{}
	name := ""
	if mc != nil {
		config, err := plan.ParseConfig(*mc)
		if err == nil {
			config, err = secrets.Owned(config) // Only its paths matter.
		}
		if err != nil {
			return nil, err
		}
		accounts, err := apply.Accounts(ctx, s.host)
		if err != nil {
			return nil, err
		}
		name, at = config.Name, plan.DesiredOf(config.Config, accounts)
	}
	m, err := s.machine(Merge(kept.Answer, answer).Files)
	if err != nil {
		return nil, err
	}
	t := NewTarget(kept, answer, at, m)
	t.Name = name
	return t, nil
}

// machine reads what the places of files depend on.
func (s *Syncer) machine(files []v1alpha1.TrustFile) (Machine, error) {
	m := Machine{Dirs: map[string]bool{}, Links: map[string]string{}}
	release := apply.Release(s.host.Files)
	if system, known := distribution.SystemOf(release["ID"], release["VARIANT_ID"]); known {
		m.Store = system.TrustStore
	}
	for _, dir := range DirsOf(files) {
		is, err := s.host.Files.Stat(dir)
		if err != nil && !errors.As(err, new(*host.UnsafePathError)) {
			return m, fmt.Errorf("looking at %s: %w", dir, err)
		}
		if m.Dirs[dir] = is.Kind == host.Dir; is.Kind == host.Link {
			m.Links[dir] = is.Target
		}
	}
	return m, nil
}

// apply writes what differs. failed is why it did not; the machine then has the files before.
func (s *Syncer) apply(ctx context.Context, turn Turn, t *Target) (failed string, err error) {
	observed, err := apply.Observe(ctx, s.host, t.Scope())
	if err != nil {
		return "", err
	}
	p, contents, changed, err := t.Plan(observed)
	if err != nil {
		return "", err
	}
	if len(p.Steps) == 0 {
		s.retry = backoff{}
		return "", nil
	}
	if why := s.mustWait(turn.Now, t); why != "" {
		return why, nil
	}
	if len(changed) > 0 {
		if read, err := turn.Rules(ctx); err == nil {
			t.Kept.Policy = read.Policy
		} else if len(t.Kept.Policy.Files) == 0 { // without the API server, the policy of the last change counts
			t.Kept.Policy = disruption.Default()
		}
		if p, contents, changed, err = t.Plan(observed); err != nil { // the record has the policy
			return "", err
		}
		actions, err := s.existing(t.Actions(changed, t.Kept.Policy))
		if err != nil {
			return "", err
		}
		p.Steps = append(p.Steps, actions...)
	}
	s.logChange(t, changed)
	runner := apply.Runner{
		Host: s.host, OnStep: turn.OnStep, OnWarning: func(err error) { s.log.Warn(err.Error()) },
	}
	done, err := runner.Run(context.WithoutCancel(ctx), p, contents)
	if err == nil && done.End != apply.New {
		err = done.Why
	}
	if err == nil {
		s.retry = backoff{}
		return "", nil
	}
	s.log.Warn("cannot write what the node trusts; the earlier files stay", "err", err)
	s.retry = backoff{
		key: t.Answer.Revision + t.Name, pause: min(max(2*s.retry.pause, minRetry), maxRetry),
		why: err.Error(),
	}
	s.retry.next = turn.Now.Add(s.retry.pause)
	return s.retry.why, nil
}

// mustWait returns why the daemon waits before the next attempt; "" for now. It counts how often files that another
// program changed are restored.
func (s *Syncer) mustWait(now time.Time, t *Target) string {
	if s.retry.key == t.Answer.Revision+t.Name && now.Before(s.retry.next) {
		return s.retry.why
	}
	if t.Answer.Revision != t.Kept.Answer.Revision || s.retry.key != "" {
		s.restored = nil
		return ""
	}
	s.restored = slices.DeleteFunc(s.restored, func(at time.Time) bool { return now.Sub(at) > restoredTime })
	if len(s.restored) >= maxRestored {
		return fmt.Sprintf("the daemon restored these files %d times within %s, and they differ again: another "+
			"program writes them; find and stop it", maxRestored, restoredTime)
	}
	s.restored = append(s.restored, now)
	return ""
}

// existing returns the actions without those of units that the machine does not have.
func (s *Syncer) existing(actions []plan.Step) (out []plan.Step, err error) {
	for _, a := range actions {
		if a.Verb != host.Reload && a.Verb != host.Restart {
			out = append(out, a)
			continue
		}
		for _, dir := range host.UnitDirs {
			is, err := s.host.Files.Stat(dir + "/" + a.Target)
			if err != nil {
				return nil, fmt.Errorf("looking for %s: %w", a.Target, err)
			}
			if is.Kind != host.Absent {
				out = append(out, a)
				break
			}
		}
	}
	return out, nil
}

// logChange logs what is about to change.
func (s *Syncer) logChange(t *Target, changed []string) {
	if len(changed) == 0 {
		return
	}
	text := "writing what the node trusts"
	if t.Answer.Revision == t.Kept.Answer.Revision {
		text = "restoring what the node trusts"
	}
	s.log.Info(text, "revision", t.Answer.Revision, "files", changed)
}
