package drain

import (
	"context"
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// mayAllowMore selects the changes of a PodDisruptionBudget after which it may allow an eviction that it refused.
var mayAllowMore = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*policyv1.PodDisruptionBudget), e.ObjectNew.(*policyv1.PodDisruptionBudget)
		return was.Generation != is.Generation ||
			is.Status.DisruptionsAllowed > was.Status.DisruptionsAllowed
	},
}

// WaitingFor returns the nodes whose drains a PodDisruptionBudget delays. Their next round is due at once, and requests
// the evictions again that the budget refused.
func (r *Controller) WaitingFor(_ context.Context, budget client.Object) (nodes []reconcile.Request) {
	name := budget.GetNamespace() + "/" + budget.GetName()
	r.nodes.Range(func(node, memory any) bool {
		if memory.(*nodeMemory).loosen(name) {
			nodes = append(nodes, reconcile.Request{NamespacedName: types.NamespacedName{Name: node.(string)}})
		}
		return true
	})
	return nodes
}

// loosen makes the answers that a budget refused old, so that they delay no new request. loosen reports whether there
// are such answers.
func (d *nodeMemory) loosen(budget string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := false
	for uid, a := range d.answers {
		if a.Kind == Refused && slices.Contains(a.Budgets, budget) {
			a.At = time.Time{}
			d.answers[uid], found = a, true
		}
	}
	d.loosened = d.loosened || found
	return found
}

// takeLoosened reports whether a budget was loosened since the last call.
func (d *nodeMemory) takeLoosened() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.loosened
	d.loosened = false
	return was
}
