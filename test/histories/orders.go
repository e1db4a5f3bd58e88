package histories

import (
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

// orders are the writes of a decision in their order: the record first, then nodes, then the pool's status.
func (w rollouts) orders(pool *mcfgv1.MachineConfigPool, f poolstate.Facts, decision poolstate.Decision) []write {
	var out []write
	live := pool // as this sync left it
	if text := decision.Record.String(); !decision.Target.IsZero() &&
		text != pool.Annotations[v1alpha1.RolloutAnnotation] {
		out = append(out, write{record: true, do: func() (err error) {
			live, err = w.writeRecord(pool, f, decision)
			return err
		}})
	}
	onNode := func(name, what string, edit func(*corev1.Node)) {
		read := w.proc.nodes[name]
		out = append(out, write{do: func() error { return w.writeNode(read, what, f, decision, edit) }})
	}
	for _, x := range decision.Release {
		w.ledger.upset[x.Node] = true // its drain costs more writes
		onNode(x.Node, "gives up the drain of "+x.Node, func(n *corev1.Node) {
			assign(n, x.Config.String())
			n.Annotations[v1alpha1.PostponedAnnotation] = x.Postponed
		})
	}
	for _, a := range decision.Assign {
		read := w.proc.nodes[a.Node]
		out = append(out, write{do: func() error {
			if is := w.api.nodes[a.Node]; is != nil && is.ResourceVersion == read.ResourceVersion {
				watcher(w).beforeTell(pool.Name, f, a)
			}
			err := w.writeNode(read, fmt.Sprintf("tells %s to take %s", a.Node, a.Config), f, decision,
				func(n *corev1.Node) {
					assign(n, a.Config.String())
					delete(n.Annotations, v1alpha1.PostponedAnnotation)
					delete(n.Annotations, v1alpha1.NextConfigAnnotation)
					if a.Untaint {
						n.Spec.Taints = withTaint(n.Spec.Taints, false)
					}
				})
			if err == nil {
				watcher(w).told(pool.Name, f, decision, a)
			}
			return err
		}})
	}
	for _, l := range decision.Label {
		if l.Attest {
			onNode(l.Node, "reads for which pool the server let "+l.Node+" in", func(n *corev1.Node) {
				booted := strings.TrimPrefix(n.Annotations[v1alpha1.FirstPivotConfigAnnotation], "rendered-")
				n.Annotations[v1alpha1.AttestedPoolAnnotation] = booted[:strings.LastIndexByte(booted, '-')]
			})
			continue
		}
		onNode(l.Node, "labels "+l.Node, func(n *corev1.Node) {
			for k, v := range l.Labels {
				n.Labels[k] = v
			}
			n.Annotations[v1alpha1.CustomPoolLabelsAppliedAnnotation] = ""
		})
	}
	mark(decision, onNode)
	return append(out, write{do: func() error { return w.writeStatus(live, f, decision) }})
}

// writeNode writes to a node that is still as the decision saw it.
func (w rollouts) writeNode(read *corev1.Node, what string, f poolstate.Facts, decision poolstate.Decision,
	edit func(*corev1.Node),
) error {
	changed, err := w.api.patchNode(read, edit)
	if err != nil || !changed {
		return err
	}
	w.tell("the controller %s", what)
	w.proc.written[read.Name] = w.api.version
	watcher(w).countWrite(read.Name, f, decision)
	return nil
}

// writeRecord stores what must not be forgotten.
func (w rollouts) writeRecord(pool *mcfgv1.MachineConfigPool, f poolstate.Facts,
	decision poolstate.Decision,
) (*mcfgv1.MachineConfigPool, error) {
	record, before := decision.Record, pool.Annotations[v1alpha1.RolloutHistoryAnnotation]
	err := w.api.patchPool(pool, func(p *mcfgv1.MachineConfigPool) {
		p.Annotations[v1alpha1.RolloutAnnotation] = record.String()
		if len(decision.Ended) > 0 {
			p.Annotations[v1alpha1.RolloutHistoryAnnotation] = v1alpha1.AddRolloutOutcomes(before, decision.Ended)
		}
	})
	if err != nil {
		return pool, err
	}
	w.tell("the controller notes on pool %s: %s", pool.Name, describeRecord(record))
	w.proc.written["pool/"+pool.Name] = w.api.version
	watcher(w).checkRecord(f.Care.Record, record, f)
	watcher(w).checkHistory(f, record, w.api.pools[pool.Name].Annotations[v1alpha1.RolloutHistoryAnnotation])
	return w.api.pools[pool.Name], nil
}

// writeStatus is the end of a sync.
func (w rollouts) writeStatus(pool *mcfgv1.MachineConfigPool, f poolstate.Facts, decision poolstate.Decision) error {
	facts := status.PoolFacts{Configuration: mcfgv1.MachineConfigPoolStatusConfiguration{
		ObjectReference: pool.Spec.Configuration.ObjectReference,
	}, Rollout: f, Decision: decision}
	s := status.Pool(pool.Status, facts, w.now)
	if sameStatus(&pool.Status, &s) {
		return nil
	}
	was := pool.Status.Configuration.Name
	if err := w.api.patchPool(pool, func(p *mcfgv1.MachineConfigPool) { p.Status = s }); err != nil {
		return err
	}
	w.proc.written["pool/"+pool.Name] = w.api.version
	if s.Configuration.Name != was {
		w.tell("pool %s is updated to %s", pool.Name, s.Configuration.Name)
	}
	watcher(w).checkStatus(pool, f, s)
	return nil
}

// describeRecord says what a record says.
func describeRecord(r v1alpha1.RolloutRecord) string {
	text := fmt.Sprintf("config %s, %d steps done", r.Target(), r.Steps)
	if r.WellSince != nil {
		text += ", well since " + moment(r.WellSince.Time)
	}
	if r.Verdict != "" {
		text += fmt.Sprintf(", %s: %s", r.Verdict, r.Why)
	}
	if r.Ended != nil {
		text += ", ended"
	}
	return text
}
