package inspect

import (
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// blocked is a blocker of a pool's rollout.
type blocked struct {
	f *fleet.Fleet
	v *fleet.Pool
	b poolstate.Block
	// asked has the pools that wait for this pool.
	asked []string
}

// Advice completes the answer for a blocker with the commands against it.
type Advice func(x blocked, a Answer) Answer

// Advices returns what a user does against each cause of a blocker. It has each cause of package rollout. The value of
// a cause is nil if a blocker never has it, because it is a reason of single nodes, or because the function Pool has an
// answer for it. TestEveryCause says for each cause which test types its commands.
func Advices() map[poolstate.Cause]Advice {
	return map[poolstate.Cause]Advice{
		poolstate.CauseInvalid:   invalidAdvice,
		poolstate.CauseSecrets:   commands(secretActions),
		poolstate.CauseApplying:  applyingAdvice,
		poolstate.CausePaused:    pausedAdvice,
		poolstate.CauseHalted:    commands(verdictActions),
		poolstate.CauseReverted:  commands(verdictActions),
		poolstate.CauseAfterPool: afterPoolAnswer,
		poolstate.CauseWindow:    windowAdvice,
		poolstate.CauseGate:      gateAdvice,
		poolstate.CauseStep:      commands(stepActions),
		poolstate.CauseSoak:      endsByItself,
		poolstate.CauseTogether:  togetherAdvice,
		poolstate.CauseBudget:    commands(unavailableActions),
		poolstate.CauseDrain:     commands(troubleActions),
		poolstate.CauseCordoned:  commands(troubleActions),
		poolstate.CauseNotReady:  commands(troubleActions),
		poolstate.CauseSilent:    commands(troubleActions),
		poolstate.CauseFailed:    commands(troubleActions),
		poolstate.CauseFetch:     commands(fetchActions),
		poolstate.CauseHeld:      nil,
		poolstate.CauseHost:      nil,
		poolstate.CauseLabels:    nil,
		poolstate.CauseUpdating:  nil,
		poolstate.CauseNext:      nil,
	}
}

// blockAnswer converts a blocker of the rollout to an answer.
func blockAnswer(f *fleet.Fleet, v *fleet.Pool, b poolstate.Block, asked []string) Answer {
	a := Answer{Outcome: Blocked, Cause: b.Cause, Reason: b.Reason, Until: fleet.TimeOrNil(b.Until)}
	switch b.Cause {
	case poolstate.CauseHalted, poolstate.CauseReverted, poolstate.CauseFailed:
		a.Outcome = Degraded
	default:
		if b.EndsByItself() {
			a.Outcome = Waiting
		}
	}
	if complete := Advices()[b.Cause]; complete != nil {
		return complete(blocked{f, v, b, asked}, a)
	}
	return a // A controller of a newer version may know causes that this program does not know.
}

// commands is the advice for a cause that alone determines the commands.
func commands(actions func(*fleet.Fleet, *fleet.Pool) []string) Advice {
	return func(x blocked, a Answer) Answer {
		a.Do = actions(x.f, x.v)
		return a
	}
}

// endsByItself is the advice for a cause that needs nobody.
func endsByItself(_ blocked, a Answer) Answer { return a }

func applyingAdvice(x blocked, _ Answer) Answer {
	return applyingAnswer(x.b, x.v.Object, x.f.Sources, x.f.Now)
}

func pausedAdvice(x blocked, a Answer) Answer {
	a.Reason = "paused" + fleet.PausedBy(x.v.Object)
	if until := fleet.PausedUntil(x.v.Object); !until.IsZero() {
		a.Outcome, a.Until = Waiting, &until
	}
	a.Do = []string{"bunsen resume pool/" + x.v.Object.Name}
	return a
}

func windowAdvice(x blocked, a Answer) Answer {
	if w := x.f.Window(x.v); w != nil {
		a.Reason = "its maintenance windows are " + w.Text(x.f.Now)
	}
	a.Do = []string{"bunsen resume pool/" + x.v.Object.Name + " --open-for 2h"}
	return a
}

func invalidAdvice(x blocked, a Answer) Answer {
	if a.Do = invalidActions(x.f, x.v, x.b.Policies); x.v.Undecided != "" {
		a.Do = lostConfigActions(x.f, x.v)
	}
	return a
}

func togetherAdvice(x blocked, a Answer) Answer {
	if a.Do = sharedBudgetActions(x.f, x.v); len(a.Do) == 0 {
		a.Outcome = Waiting
	}
	return a
}

func gateAdvice(x blocked, a Answer) Answer {
	if !x.b.EndsByItself() {
		a.Do = gateActions(x.f, x.v)
	}
	return a
}
