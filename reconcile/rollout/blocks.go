package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// slow is after how long a node that is not Ready, or a drain, is no progress any more.
	slow = 10 * time.Minute
	// forbidden is after how long a PodDisruptionBudget holds a drain up, and not just for a moment.
	forbidden = 5 * time.Second
	// Flapping is for how long a node may be not Ready before that is reported, where neither a reboot nor an update explains it.
	Flapping = 30 * time.Second
)

// notice is a decision that says why a pool does not go on.
type notice struct{ *decision }

// blocks says why the pool as a whole does not go on, most important first.
func (d notice) blocks() []Block {
	var out []Block
	if d.f.Care.Lost != "" {
		out = append(out, Block{Cause: CauseInvalid, Reason: d.f.Care.Lost})
	}
	behind := d.m.tally.of(behind) > 0
	for _, b := range d.stop {
		if behind || b.Cause != CausePaused && b.Cause != CauseBudget {
			out = append(out, b)
		}
	}
	if d.record.Verdict == v1alpha1.RolloutReverted {
		out = append(out, d.verdict())
	}
	if !behind {
		return append(out, d.deadBlocks()...)
	}
	if len(d.stop) == 0 {
		out = append(out, d.hold...)
		out = append(out, d.stepBlocks()...)
		out = append(out, d.placeBlocks(len(out) > 0)...)
	}
	return append(out, d.drainBlocks()...)
}

// deadBlocks name the nodes that run the target and have not been Ready for longer than a moment: the pool is not updated
// while they are not.
func (d notice) deadBlocks() []Block {
	text := d.unwell(func(x *seat) bool {
		if x.Health.Trouble == "" || x.kind&busy != 0 {
			return false
		}
		if age(d.now, x.Health.Since) < Flapping {
			d.wakeAt(x.Health.Since.Add(Flapping))
			return false
		}
		return true
	})
	if text == "" {
		return nil
	}
	return []Block{{Cause: CauseNotReady, Reason: text}}
}

// stepBlocks say why the step under way does not end.
func (d notice) stepBlocks() []Block {
	s := d.stage
	if !s.limited {
		return nil
	}
	if s.Due {
		g, _ := d.closedGate(anyGate)
		if len(d.hold) > 0 && d.hold[len(d.hold)-1] == g {
			return nil // a query that holds every node is said already
		}
		return []Block{g}
	}
	if !s.soaked.IsZero() {
		return []Block{{Cause: CauseSoak, Until: s.soaked, Reason: fmt.Sprintf("%s; soaking until %s", d.stepText(), within(s.soaked, s.step.Soak))}}
	}
	if s.step.Selector != nil && s.Want == 0 {
		return []Block{{Cause: CauseStep, Reason: fmt.Sprintf("the canary's nodeSelector %s matches no node of pool %s; label one, or correct the RolloutPolicy",
			s.step.Selector, d.f.Pool)}}
	}
	if len(d.picked.seats) > 0 || d.moving() {
		return nil
	}
	if b, held := d.heldByGates(); held {
		return []Block{b}
	}
	if text := d.unwell(func(x *seat) bool { return s.step.Selector == nil || x.kind&canary != 0 }); text != "" {
		return []Block{{Cause: CauseStep, Reason: d.stepText() + ": " + text}}
	}
	return nil
}

// stepText names the step and how far it is.
func (d notice) stepText() string {
	s, kind := d.stage, ""
	if s.Canary {
		kind = " (canary)"
	}
	return fmt.Sprintf("step %d of %d%s: %d of %d nodes well", s.Step+1, s.Of, kind, max(0, s.Well), s.Want)
}

// heldByGates names the updated nodes whose own gates do not hold yet.
func (d notice) heldByGates() (Block, bool) {
	var texts []string
	for _, x := range d.m.in(out) {
		if x.kind&gated != 0 && len(texts) < named {
			texts = append(texts, x.Name+": "+x.Gate)
		}
	}
	if more := d.m.tally.of(gated) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	b := Block{Cause: CauseGate}
	if y := d.budget.young; y.held > 0 {
		texts = append(texts, fmt.Sprintf("%d updated nodes have to stay Ready until %s", y.held, within(y.until, y.span)))
		b.Until = y.until
	}
	b.Reason = strings.Join(texts, "; ")
	return b, len(texts) > 0
}

// placeBlocks say why nobody is told though nothing else stands in the way, as far as nobody is on the way either.
// otherwise tells that another reason was found.
func (d notice) placeBlocks(otherwise bool) []Block {
	if len(d.picked.seats) > 0 || len(d.release) > 0 || d.moving() {
		return nil
	}
	candidates := len(d.m.in(fresh)) + len(d.m.in(broken)) + len(d.m.in(turning)) + len(d.m.in(ailing))
	if candidates == 0 {
		if otherwise {
			return nil
		}
		if text := d.unwell(func(x *seat) bool { return x.kind&behind != 0 && !d.drainsSlowly(x) }); text != "" {
			return []Block{{Cause: d.ailment(), Reason: text}}
		}
		return nil
	}
	var out []Block
	if d.f.Care.Around.Quorum != "" {
		out = append(out, Block{Cause: CauseAfterPool, Reason: d.f.Care.Around.Quorum})
	}
	for _, t := range d.f.Care.Around.Together {
		if left(t, d.budget.used) <= 0 {
			out = append(out, Block{Cause: CauseTogether, Reason: d.words(true).together(t)})
		}
	}
	if d.budget.used >= d.budget.max {
		return append(out, Block{Cause: CauseBudget, Reason: d.words(true).budget()})
	}
	if otherwise || len(out) > 0 {
		return out
	}
	for _, x := range d.m.in(fresh) {
		if d.stage.lets(x, 0) && d.zoneRoom(x.zone) == 0 {
			return []Block{{Cause: CauseBudget, Reason: d.words(true).zone(x)}}
		}
	}
	return out
}

// ailment is the cause of a pool whose last nodes cannot be told.
func (d notice) ailment() Cause {
	if d.m.tally.of(failedThis) > 0 {
		return CauseFailed
	}
	for _, x := range d.m.in(out) {
		if x.kind&behind != 0 && x.Health.Silence != "" {
			return CauseNotReady
		}
	}
	for _, x := range d.m.in(out) {
		if x.kind&behind != 0 && x.Cordon.Unschedulable {
			return CauseCordoned
		}
	}
	return CauseNotReady
}

// unwell names the nodes among these that are out of service.
func (d notice) unwell(among func(*seat) bool) string { return d.few(among, d.words(true).doing) }

// few names the first of the nodes among these that are out of service, with what is said of each, and counts the rest;
// empty: there are none.
func (d notice) few(among func(*seat) bool, say func(*Node) string) string {
	var texts []string
	more := 0
	for _, x := range d.m.in(out) {
		switch {
		case !among(x):
		case len(texts) < named:
			texts = append(texts, x.Name+" "+say(&x.Node))
		default:
			more++
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// moving tells that a node is on its way, to the target or to what it was told before, and has not been at it for too long.
func (d notice) moving() bool {
	for _, x := range d.m.in(out) {
		if x.kind&busy == 0 || x.Failing() || d.abandoned(x) {
			continue
		}
		lost := x.Health.Trouble != "" && age(d.now, x.Health.Since) > slow
		if !lost && !d.dead(x) && !d.drainsSlowly(x) {
			return true
		}
	}
	return false
}

// dead reports whether the kubelet of a node that does not reboot has stopped reporting for longer than a moment.
func (d notice) dead(x *seat) bool {
	if x.Health.Silence == "" || x.Step.Rebooting {
		return false
	}
	if age(d.now, x.Health.Since) < Flapping {
		d.wakeAt(x.Health.Since.Add(Flapping))
		return false
	}
	return true
}

// abandoned tells that no daemon has ever reported from a node that has been there for long.
func (d notice) abandoned(x *seat) bool {
	if x.State != "" || x.Created.IsZero() {
		return false
	}
	if age(d.now, x.Created) <= slow {
		d.wakeAt(x.Created.Add(slow + time.Second))
		return false
	}
	return true
}

func (d notice) drainsSlowly(x *seat) bool {
	return x.Step.Draining && age(d.now, x.Step.DrainStarted) > slow
}

// heldUp tells that a drain is worth to be named: it takes long, or a budget forbids it. Which of both is decided by time.
func (d notice) heldUp(x *seat) bool {
	if since := x.Step.HeldUpSince; !since.IsZero() && age(d.now, since) < forbidden {
		d.wakeAt(d.now.Add(forbidden))
	} else if !since.IsZero() {
		return true
	}
	return d.drainsSlowly(x)
}

// drainBlocks name the drains that are held up.
func (d notice) drainBlocks() []Block {
	text := d.few(d.heldUp, d.words(true).draining)
	if text == "" {
		return nil
	}
	return []Block{{Cause: CauseDrain, Reason: text}}
}
