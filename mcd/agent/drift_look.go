package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/progress"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// sight is one look at the machine, and what follows from it.
type sight struct {
	drift.Decision
	// config in force.
	config string
	// expected contents of what differs, and the actual ones, by path.
	expected, actual map[string][]byte
	// fresh are those that the look before did not see.
	fresh []drift.Verdict
}

// inForce is the config that the machine should be in; without a name where it has none.
func (l lookout) inForce(ctx context.Context, node protocol.Assignment) (plan.Named, error) {
	return l.a.current(ctx, node)
}

// look compares the machine with its config, decides, and remembers. Paths that are as next wants them have not drifted.
func (l lookout) look(ctx context.Context, at plan.Named, next *plan.Wanted) (sight, error) {
	accounts, err := apply.Accounts(ctx, l.a.Host)
	if err != nil {
		return sight{}, err
	}
	f := drift.Facts{Config: at, Wanted: plan.Want(at.Config, accounts)}
	if next == nil {
		next = &f.Wanted
	}
	l.watch(ctx, f.Wanted) // first, so that nothing is missed between
	scope := plan.ScopeOf(f.Wanted)
	if f.Observed, err = apply.Observe(ctx, l.a.Host, scope); err != nil { // perhaps something changed meanwhile
		f.Observed, err = apply.Observe(ctx, l.a.Host, scope)
	}
	if err != nil {
		return sight{}, err
	}
	f.Items = drift.Items(f.Observed, f.Wanted, *next)
	known, err := l.load()
	if err != nil {
		return sight{}, err
	}
	before := known
	l.ask(ctx, at.Name, &known)
	f.Policy, f.Rules, f.Memory = known.Policy, known.Rules, known.Memory
	s := sight{config: at.Name, expected: map[string][]byte{}, actual: map[string][]byte{}}
	f.Seen = l.seen(f, &s)
	s.Decision = drift.Decide(f, time.Now())
	for _, v := range s.Verdicts {
		if before.Memory.Things[v.Name].Since.IsZero() && v.Action != v1alpha1.DriftIgnore {
			s.fresh = append(s.fresh, v)
		}
	}
	known.Memory = s.Memory
	known.Accessed = known.Accessed || l.a.Drift != nil && l.a.Drift.Accessed()
	known.Diffs = l.diffs(ctx, s, known.Diffs)
	known.Report, _ = s.Report(at.Name)
	if err := l.save(before, known); err != nil {
		if len(s.Repair.Steps) > 0 {
			return sight{}, err // what is not remembered is repaired for ever
		}
		l.a.Log.Warn("drift is looked at without a memory", "err", err)
	}
	return s, nil
}

// watch looks after what the config names, and after the links of units and the files of accounts that it is about.
func (l lookout) watch(ctx context.Context, want plan.Wanted) {
	if l.a.Drift == nil {
		return
	}
	paths := append(slices.Collect(maps.Keys(want.Paths)), host.ForcePath, host.RecordPath)
	for name, u := range want.Units {
		if u.Enabled == nil {
			continue
		}
		is, err := l.a.Host.Units.Status(ctx, name)
		if err != nil { // who observes it says so
			continue
		}
		paths = append(paths, linksOf(name, is.Install)...)
	}
	if len(want.Users)+len(want.Groups) > 0 {
		paths = append(paths, host.PasswdPath, host.GroupPath, host.ShadowPath)
	}
	if err := l.a.Drift.Watch(paths); err != nil {
		l.a.Log.Warn("not all changes are noticed at once", "err", err)
	}
}

// pulls are the directories of links by what asks for them.
var pulls = map[string]string{"WantedBy": ".wants", "RequiredBy": ".requires", "UpheldBy": ".upholds"}

// linksOf are the links that enable a unit, by what counts of its [Install].
func linksOf(name, install string) (links []string) {
	linked := name
	for line := range strings.Lines(install) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "DefaultInstance" {
			linked = strings.Replace(name, "@.", "@"+value+".", 1)
		}
	}
	for line := range strings.Lines(install) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if dir, pulled := pulls[key]; pulled {
			links = append(links, path.Join(host.UnitDir, value+dir, linked))
		} else if key == "Alias" {
			links = append(links, path.Join(host.UnitDir, value))
		}
	}
	return links
}

// ask learns what the cluster says about drift and its repair; what it said last counts while it does not answer.
func (l lookout) ask(ctx context.Context, config string, known *kept) {
	p, err := l.a.Cluster.DriftRules(ctx, progress.Pool(config))
	if !errors.Is(err, protocol.ErrUnreachable) {
		known.Policy = p
		if err != nil { // what cannot be read degrades more and repairs less, which is safe
			l.a.Log.Warn("a drift policy counts only as far as it can be read", "err", err)
		}
	}
	rules, err := l.a.Cluster.Rules(ctx)
	if err == nil {
		known.Rules = rules.Policy
	} else if !errors.Is(err, protocol.ErrUnreachable) { // no fault of this node's
		l.a.Log.Warn("repairs of drift cost what they did before: reading the disruption policy", "err", err)
	}
}

// seen reads what the machine has where something differs. A file that goes away meanwhile is looked at the next time.
func (l lookout) seen(f drift.Facts, s *sight) map[string]drift.Seen {
	out := map[string]drift.Seen{}
	want := plan.Target(f.Observed, f.Wanted, f.Wanted)
	maps.Copy(want.Contents, f.Wanted.Contents)
	for _, it := range f.Items {
		if !path.IsAbs(it.Name) {
			continue
		}
		var is drift.Seen
		if l.a.Drift != nil {
			is.Modified = l.a.Drift.Modified(it.Name)
		}
		if it.Step.Before.Entry.Kind == host.File {
			contents, err := l.a.Host.Files.Read(it.Name)
			is.Contents, is.Unread = contents, err != nil
		}
		out[it.Name] = is
		s.expected[it.Name], s.actual[it.Name] = want.Contents[it.Step.After.Entry.Digest], is.Contents
	}
	return out
}

// repair puts right what the decision says, by a runner of its own: whether the machine is healthy is not the question, and
// the config in force is not to be rejected if it is not.
func (l lookout) repair(ctx context.Context, s sight) error {
	for _, step := range s.Repair.Steps {
		l.a.Log.Info("repairing drift", "config", s.config, "step", step.String())
	}
	runner := apply.Runner{Host: l.a.Host, Tell: l.a.runner.Tell}
	done, err := runner.Run(context.WithoutCancel(ctx), s.Repair, s.Contents)
	if err == nil && done.End != apply.New {
		err = done.Why
	}
	if err != nil {
		return fmt.Errorf("repairing drift from %s: %w", s.config, err)
	}
	return nil
}

// first is since when something differs that is not ignored; zero where nothing does.
func (s sight) first() (at time.Time) {
	for _, v := range s.Verdicts {
		if v.Action != v1alpha1.DriftIgnore && (at.IsZero() || v.Since.Before(at)) {
			at = v.Since
		}
	}
	return at
}

// tell says what differs: on the Node, as an event, as a metric. What the cluster cannot be told now is told at the next
// look. The error is the reason to be Degraded.
func (l lookout) tell(ctx context.Context, node protocol.Assignment, s sight) error {
	text := ""
	if report, ok := s.Report(s.config); ok {
		var err error
		if text, err = drift.Encode(report); err != nil {
			return fmt.Errorf("writing the report of drift: %w", err)
		}
	}
	if len(s.fresh) > 0 {
		what := drift.Summary(s.config, s.fresh)
		l.a.Log.Warn("drift", "what", what)
		l.a.event(protocol.EventDriftDetected, "%s", what)
	}
	if l.a.Metrics != nil {
		l.a.Metrics.Drift(s.first())
	}
	var untold error
	if text != node.Drift {
		if text == "" {
			l.a.Log.Info("no drift any more", "config", s.config)
		}
		if err := l.a.Cluster.Report(ctx, map[string]string{v1alpha1.DriftAnnotation: text}); err != nil && !errors.Is(err, protocol.ErrUnreachable) {
			untold = fmt.Errorf("reporting drift: %w", err)
		}
	}
	if reason := s.Reason(s.config); reason != "" {
		return errors.Join(errors.New(reason), untold)
	}
	return untold
}
