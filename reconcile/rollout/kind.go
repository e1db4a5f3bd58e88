package rollout

import (
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// lens is what nodes are looked at through: all that a node's kind depends on besides the node.
type lens struct {
	// target is what nodes are told, goal what the pool should run; they differ while a rollout is taken back.
	target, goal string
	// canary picks the nodes of a canary by their labels; nil: no step does.
	canary labels.Selector
	// customs are the pools whose machines may have booted as members of this pool; nil: none.
	customs []Custom
	// host is told last.
	host string
}

// same tells that every node has the same kind through both.
func (l lens) same(o lens) bool {
	if l.target != o.target || l.goal != o.goal || l.host != o.host {
		return false
	}
	if (l.canary == nil) != (o.canary == nil) || l.canary != nil && l.canary.String() != o.canary.String() {
		return false
	}
	return slices.EqualFunc(l.customs, o.customs, func(a, b Custom) bool { return a.Pool == b.Pool })
}

// kind is what a node is to a decision: a set of the words below. A node without a word has nothing to do with it.
type kind uint32

// The kinds whose nodes a decision goes through, in an order of theirs.
const (
	// out: it takes a place in the budget, for whatever reason. Not more than one of the six after it is, but where they say so.
	out kind = 1 << iota
	// home: it runs the target and was told another config. Telling it disturbs nobody.
	home
	// broken: it failed another config and is out of service through nobody's doing but ours. A new order may heal it.
	broken
	// lost: it is not Ready though nothing was reported to have failed, as after a config that it does not live with. Where that
	// lasts it is like broken. It may be turning, too.
	lost
	// turning: it is on its way to another config. It may as well go to the target, and takes no new place by that.
	turning
	// ailing: it serves pods, and counts as out of service since it is not as it should be, as one that has drifted. A new
	// order may heal it; it takes the place that it has.
	ailing
	// fresh: it is in service and may be told; it takes a place.
	fresh
	// toTaint, toUntaint: it gets or loses the UpdateInProgress taint.
	toTaint
	toUntaint
	// well: it runs the target, is Ready, and no gate of its own holds it.
	well
	// toLabel: it says that it booted for another pool, and is to be labelled for the one that the server let it in for.
	toLabel
	// degraded: its daemon reports a failure.
	degraded
)

// ordered is how many kinds have an order.
const ordered = 12

// The kinds that are counted only.
const (
	// unavailable: as the method says.
	unavailable kind = 1 << (iota + ordered)
	// failedThis: it was told the target and could not.
	failedThis
	// coming: it serves pods and was told the target; its complaint is of what it was told before, or that it cannot be drained.
	coming
	// gated: it runs the target and is Ready, but a health gate holds it.
	gated
	// atWork: between being told and being done, those that failed another config apart.
	atWork
	// busy: it was told another config than it runs.
	busy
	// told the target.
	told
	// behind: it does not run the target.
	behind
	// updated to the goal; ready ones serve pods too.
	updated
	ready
	// canary: the canary's selector picks it; the others are both.
	canary
	canaryTold
	canaryWell
)

const kinds = 25

// kind of one node.
func (l lens) kind(n *Node) kind {
	var k kind
	set := func(is bool, which kind) {
		if is {
			k |= which
		}
	}
	wasTold, isReady, failing, isUpdated := n.told(l.target), n.Ready(), n.Failing(), n.UpdatedTo(l.target)
	set(n.Unavailable(), unavailable)
	if failing && n.Config.Desired == l.target {
		elsewhere := n.Step.Draining || n.blames(l.target)
		set(!elsewhere, failedThis)
		set(elsewhere && isReady, coming)
	}
	set(isUpdated && isReady && n.Gate != "", gated)
	set(isUpdated && isReady && n.Gate == "", well)
	set(k&takes != 0, out)
	set(n.Degraded(), degraded)
	set(n.Config.Current != n.Config.Desired, busy)
	set(k&busy != 0 && (!failing || n.Config.Desired == l.target), atWork)
	set(wasTold, told)
	set(!isUpdated, behind)
	set(!wasTold && !n.Tainted, toTaint)
	set(wasTold && n.Tainted, toUntaint)
	set(n.UpdatedTo(l.goal), updated)
	set(k&updated != 0 && isReady, ready)
	if l.canary != nil && l.canary.Matches(labels.Set(n.Labels)) {
		set(true, canary)
		set(wasTold, canaryTold)
		set(k&well != 0, canaryWell)
	}
	if !wasTold {
		k |= l.candidate(n)
	}
	return k
}

// candidate says as what a node might be told the target, if at all.
func (l lens) candidate(n *Node) kind {
	c := n.Config
	switch {
	case n.toCheck(l.customs), n.toCustom(l.customs) != nil:
		return toLabel
	case n.Cordon.ByAdministrator():
		return 0 // people come first, even on a node that failed
	case c.Current == l.target && c.CurrentImage == "" && c.DesiredImage == "":
		return home
	case n.Failing() && !n.Ready():
		return broken
	case !n.Failing() && c.Desired != "" && c.Desired != l.target && c.Desired != c.Current:
		if n.Health.Trouble != "" {
			return turning | lost
		}
		return turning
	case n.Health.Trouble != "" && c.Current != "":
		return lost
	case n.Ready() && n.Degraded() && !n.Failing():
		return ailing
	case n.Ready():
		return fresh
	}
	return 0
}

// index of a kind of one word.
func (k kind) index() int { return bits.TrailingZeros32(uint32(k)) }

// each calls do with the index of every word of a kind.
func (k kind) each(do func(i int)) {
	for ; k != 0; k &= k - 1 {
		do(k.index())
	}
}

// tally is how many nodes there are of each kind.
type tally [kinds]int

func (t *tally) add(k kind, by int) { k.each(func(i int) { t[i] += by }) }

// of is how many nodes are of one kind.
func (t *tally) of(k kind) int { return t[k.index()] }

// counts are a pool's numbers; held is how many places are taken that no kind says.
func (t *tally) counts(machines, held int) Counts {
	return Counts{
		Machines: machines, Updated: t.of(updated), Ready: t.of(ready), Unavailable: t.of(unavailable), Degraded: t.of(degraded),
		Places: t.of(unavailable) + t.of(failedThis) + t.of(coming) + t.of(gated) + held,
	}
}

// takes are the kinds that take a place each.
const takes = unavailable | failedThis | coming | gated

// places a node of this kind takes in a budget: one for being out of service or at work, one for having failed the target,
// which is bad news until it has worked there, one while a health gate holds it.
func (k kind) places() int { return bits.OnesCount32(uint32(k & takes)) }
