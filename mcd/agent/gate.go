package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// The usual patience of the health gate.
const (
	// AfterReboot is how long a machine may take to be well after a reboot.
	AfterReboot = 5 * time.Minute
	// AfterActions is the same after services were reloaded or restarted.
	AfterActions = time.Minute
	// Settle is how long it must stay so.
	Settle = 10 * time.Second
	// glance is the pause between two looks while the gate is open; there is no polling but then.
	glance = time.Second
	// answerIn is how long one question may take.
	answerIn = 5 * time.Second
)

// Units tells what runs.
type Units interface {
	// Active tells ActiveState, SubState and Result of a unit; one that is not there is inactive.
	Active(ctx context.Context, name string) (state, sub, result string, err error)
}

// Health is how it is found out whether a machine lives with its new config. Parts that are nil are not asked; durations
// that are 0 are the usual ones.
type Health struct {
	// Units of the machine.
	Units Units
	// Kubelet asks the kubelet whether it is healthy.
	Kubelet func(ctx context.Context) error
	// API says what an error of asking the cluster means; nil: the API server does not count.
	API func(err error) health.API
	// AfterReboot, AfterActions and Settle: see the constants.
	AfterReboot, AfterActions, Settle time.Duration
}

// gate judges, for apply.Runner.
type gate struct {
	Config
	memory memory
	// stop ends it without a judgement when it is done; the next start asks again.
	stop context.Context
	// own is the attempt that this process began last, and looked the one whose look it counted last.
	own, looked attempt
}

// attempt is one time that the steps to a config were done.
type attempt struct {
	config string
	number int
}

// judge blocks until it is known whether the machine lives with the new config of a journal.
func (g *gate) judge(ctx context.Context, rec host.Record) error {
	if g.Health == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.stop, cancel)()
	t, err := g.memory.task(rec.To)
	if err != nil { // a disk that cannot be read is not the config's fault
		g.Log.Warn("what was well before the change is not known, so only its units count", "err", err)
	}
	if ill := g.beginLook(ctx, t); ill != nil {
		return g.reject(ctx, rec, ill)
	}
	ill, unknown := g.find(ctx, rec, t)
	switch {
	case unknown != nil:
		g.endLook(ctx, t)
		return unknown
	case ill != nil:
		return g.reject(ctx, rec, ill)
	}
	return nil
}

// find looks until it is known whether the machine is healthy: nil is healthy. The error is the context's, when nobody knows.
func (g *gate) find(ctx context.Context, rec host.Record, t *task) (*health.Illness, error) {
	h := g.Health
	var before health.Before
	if t != nil {
		before = t.Before
	}
	before.API = before.API && health.Reboots(rec)
	watch := h.watch(health.Reboots(rec))
	g.Log.Info("looking whether the machine is healthy", "config", rec.To, "settles", watch.Settle, "within", watch.Limit,
		"units", g.counted(rec, before), "kubelet", before.Kubelet && h.Kubelet != nil, "api", before.API && h.API != nil)
	for answered := false; ; {
		seen := g.look(ctx, rec, before, answered)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		answered = answered || seen.API == health.Answers
		done, ill := watch.See(time.Now(), seen)
		if done && ill == nil && seen.API == health.RefusedThere {
			g.Log.Warn("the API server does not answer; it is taken to be down for all", "err", seen.APIWhy)
		}
		if done {
			return ill, nil
		}
		if !wait(ctx, glance) {
			return nil, ctx.Err()
		}
	}
}

// watch has the patience for an update.
func (h *Health) watch(rebooted bool) health.Watch {
	w := health.Watch{Limit: cmp.Or(h.AfterActions, AfterActions), Settle: cmp.Or(h.Settle, Settle)}
	if rebooted {
		w.Limit = h.afterReboot()
	}
	return w
}

func (h *Health) afterReboot() time.Duration {
	if h == nil {
		return AfterReboot
	}
	return cmp.Or(h.AfterReboot, AfterReboot)
}

// before tells what is well now, for a judgement later.
func (g *gate) before(ctx context.Context, steps []host.Step, api bool) (b health.Before) {
	if g.Health == nil {
		return b
	}
	b.API = api
	if g.Health.Kubelet != nil {
		err := g.ask(ctx, g.Health.Kubelet)
		if b.Kubelet = err == nil; err != nil {
			g.Log.Warn("the kubelet is not healthy before the change, so it does not count after it", "err", err)
		}
	}
	for _, u := range g.units(ctx, health.UnitsOf(host.Record{Steps: steps})) {
		if why := u.Ill(); why != "" {
			b.Failed = append(b.Failed, u.Name)
			g.Log.Warn("a unit of the change is not well before it, so it does not count after it", "unit", u.Name, "why", why)
		}
	}
	return b
}

func (g *gate) ask(ctx context.Context, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	return question(ctx)
}

// look takes one look. An API server that answered once is not asked again.
func (g *gate) look(ctx context.Context, rec host.Record, before health.Before, answered bool) (s health.Seen) {
	s.Units = g.units(ctx, g.counted(rec, before))
	if g.Health.Kubelet != nil && before.Kubelet {
		if err := g.ask(ctx, g.Health.Kubelet); err != nil {
			s.Kubelet = err.Error()
		}
	}
	switch {
	case g.Health.API == nil || !before.API:
	case answered:
		s.API = health.Answers
	default:
		err := g.ask(ctx, func(ctx context.Context) error { _, err := g.Cluster.Assignment(ctx); return err })
		if s.API = g.Health.API(err); err != nil {
			s.APIWhy = err.Error()
		}
	}
	return s
}

// counted are the units that must be well.
func (g *gate) counted(rec host.Record, before health.Before) []string {
	return slices.DeleteFunc(health.UnitsOf(rec), func(name string) bool { return slices.Contains(before.Failed, name) })
}

func (g *gate) units(ctx context.Context, names []string) (units []health.Unit) {
	if g.Health.Units == nil {
		return nil
	}
	for _, name := range names {
		u := health.Unit{Name: name}
		err := g.ask(ctx, func(ctx context.Context) (err error) {
			u.State, u.Sub, u.Result, err = g.Health.Units.Active(ctx, name)
			return err
		})
		if err != nil {
			u.Unknown = "asking systemd: " + err.Error()
		}
		units = append(units, u)
	}
	return units
}

// title is what people who are logged in are told before a reboot.
func (g *gate) title(rec host.Record) string {
	if rec.Phase == host.Returning {
		return "going back to machine config " + before(rec.From, rec.To) + ", because the machine did not live with " + rec.To
	}
	if t, err := g.memory.task(rec.To); err == nil && t != nil {
		return "machine config " + t.about()
	}
	return "machine config " + rec.To
}

// voice is a machine's switch that says what a reboot is for: who is logged in shall know the commit.
type voice struct {
	host.Power
	agent *Agent
}

// Reboot implements host.Power.
func (v voice) Reboot(ctx context.Context, why string) error {
	if rec, err := v.agent.Host.Journal.Load(); err == nil && rec != nil {
		why = v.agent.gate.title(*rec)
		if rec.Phase != host.Returning { // that is shown when it is known why
			sign{v.agent}.reboots(*rec)
		}
	}
	return v.Power.Reboot(ctx, why)
}
