package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// How often a config is tried that ends so, until that is held against it: a power cut looks the same.
const (
	mostNotBooted   = 2
	mostInterrupted = 3
	// mostLooks is how often it may be cut off to look whether the machine is healthy.
	mostLooks = 3
)

// verdict is a config that is not tried again until another one is desired, or a person says so by the force file.
type verdict struct {
	// Config is its name.
	Config string `json:"config"`
	// Why in words, as the Node is told.
	Why string `json:"why"`
	// Time of the verdict.
	Time time.Time `json:"time"`
	// Doubtful until the API server was reached with the old config: where it is not reached either, the config is innocent.
	Doubtful bool `json:"doubtful,omitempty"`
	// Again: it is tried once more, because a power cut does the same: it interrupts, and in the moment of the reboot it loses
	// what was staged.
	Again bool `json:"again,omitempty"`
	// NotBooted and Interrupted count the attempts that ended so.
	NotBooted   int `json:"notBooted,omitempty"`
	Interrupted int `json:"interrupted,omitempty"`
	// Attempt is the last that was counted: told twice of one attempt, it is one.
	Attempt string `json:"attempt,omitempty"`
	// Retry is what the Node asked for when the attempt began: it is no reason for another one.
	Retry time.Time `json:"retry,omitzero"`
}

// stands tells a verdict that keeps the config from being tried.
func (v *verdict) stands() bool { return v != nil && !v.Again }

// lifted tells that somebody wants the config to be tried again: the Node asks for it, later than the verdict. A time that it
// asked for before counts once, even one that is still to come.
func (v *verdict) lifted(asked time.Time) bool { return asked.After(v.Time) && !asked.Equal(v.Retry) }

// verdict that is kept, whether it stands or only counts; nil for none.
func (m memory) verdict() (*verdict, error) { return recall[verdict](m, VerdictPath) }

// stand keeps a verdict. The API server answers, so that one in doubt of it is confirmed: with the old config it does.
func (m memory) stand(ctx context.Context, v verdict) error {
	if v.Doubtful {
		v.Doubtful = false
		if err := m.keep(ctx, VerdictPath, v); err != nil {
			return err
		}
	}
	return &standingError{v}
}

// reject keeps the verdict before anything is taken back, because a crash forgets why.
func (g *gate) reject(ctx context.Context, rec host.Record, ill *health.Illness) error {
	v := g.verdictOn(rec, fmt.Sprintf("%s; %s", ill.Error(), inspect(ill.Units)))
	v.Doubtful = ill.Doubtful
	if err := g.memory.keep(ctx, VerdictPath, v); err != nil {
		return errors.Join(ill, err)
	}
	g.Log.Warn("going back", "config", rec.From, "from", rec.To, "why", ill.Error())
	return ill
}

// verdictOn words a verdict that stands.
func (g *gate) verdictOn(rec host.Record, why string) verdict {
	v := verdict{Config: rec.To, Time: time.Now().UTC().Truncate(time.Second), Attempt: rec.BootID}
	about := rec.To
	if t, err := g.memory.task(rec.To); err == nil && t != nil {
		about, v.Retry, v.Attempt = t.about(), t.Node.Retry, strconv.Itoa(t.Attempt)
	}
	if rec.Cause != host.Interrupted {
		why = "the machine did not live with it: " + why
	}
	v.Why = fmt.Sprintf("updating to %s: %s; the node is back in %s; %s", about, why, before(rec.From, rec.To), onceMore)
	return v
}

// rejected is called when all is taken back. It keeps the verdict, if the gate did not, and takes the force file away: a
// person's word counts once. What may have been a power cut is counted first.
func (g *gate) rejected(rec host.Record, why error) error {
	ctx := context.Background()
	if nobodys, err := g.nobodys(rec); err != nil || nobodys {
		return err
	}
	v, err := g.memory.verdict()
	if err != nil {
		return err
	}
	if v == nil || v.Config != rec.To {
		v = &verdict{Again: true}
	}
	now := g.verdictOn(rec, strings.TrimPrefix(why.Error(), apply.ErrUnhealthy.Error()+": "))
	if v.Again && v.Attempt != now.Attempt {
		now.NotBooted, now.Interrupted = v.NotBooted, v.Interrupted
		switch rec.Cause {
		case host.NotBooted:
			now.NotBooted++
			now.Again = now.NotBooted < mostNotBooted
		case host.Interrupted:
			now.Interrupted++
			now.Again = now.Interrupted < mostInterrupted
			now.Why = g.verdictOn(rec, fmt.Sprintf("%d times, %v; see journalctl --list-boots and journalctl -b -1 -e on the node", now.Interrupted, why)).Why
		}
		v = &now
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("keeping the verdict: %w", err)
	}
	if err := g.memory.put(ctx, VerdictPath, text); err != nil {
		return err
	}
	return g.memory.forget(ctx, host.ForcePath)
}

// nobodys tells interruptions that are held against nobody: of what was no update, and of an attempt of this very process,
// which could not write down why it went back.
func (g *gate) nobodys(rec host.Record) (bool, error) {
	if rec.Cause != host.Interrupted {
		return false, nil
	}
	t, err := g.memory.task(rec.To)
	return t == nil || g.own == t.attempt(), err
}

// beginLook counts that it is looked whether the machine is healthy, durably and once for each process: who comes back to it has
// not gone down. It returns why not to: a config with which the machine went down each time would never be judged.
func (g *gate) beginLook(ctx context.Context, t *task) *health.Illness {
	if t == nil || g.looked == t.attempt() {
		return nil
	}
	if t.Looks >= mostLooks {
		return &health.Illness{What: []string{fmt.Sprintf("%d times, the machine or the daemon went down while it was looked whether the machine is healthy", t.Looks)}}
	}
	g.looked = t.attempt()
	t.Looks++
	g.keepLooks(ctx, t)
	return nil
}

// endLook takes that back, when the daemon ends because it was told to.
func (g *gate) endLook(ctx context.Context, t *task) {
	if t != nil && g.looked == t.attempt() {
		g.looked = attempt{}
		t.Looks--
		g.keepLooks(context.WithoutCancel(ctx), t)
	}
}

func (g *gate) keepLooks(ctx context.Context, t *task) {
	if err := g.memory.keep(ctx, TaskPath, t); err != nil {
		g.Log.Warn("it is not counted how often it was looked whether the machine is healthy", "err", err)
	}
}
