package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// writers is how many nodes are written to at a time: a rollout begins with a taint on each node of a pool.
const writers = 16

// enough failures in one wave say that the trouble is not with the nodes; the rest of the wave would fail as well.
const enough = 8

// order is one write to one node.
type order struct {
	// node as the decision saw it; shared with the informer.
	node *corev1.Node
	// what is done, for an error: "telling node n1 to take v1".
	what  string
	patch nodePatch
}

// nodePatch is a JSON merge patch. It holds for the version that the decision saw and for no other: a decision on stale
// facts could break the budget.
type nodePatch struct {
	Metadata struct {
		ResourceVersion string             `json:"resourceVersion"`
		Annotations     map[string]*string `json:"annotations,omitempty"`
		Labels          map[string]string  `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec *taintsPatch `json:"spec,omitempty"`
}

// taintsPatch replaces all taints; nil removes them.
type taintsPatch struct {
	Taints []corev1.Taint `json:"taints"`
}

func newOrder(n *corev1.Node, what string) order {
	o := order{node: n, what: what}
	o.patch.Metadata.ResourceVersion = n.ResourceVersion
	return o
}

// annotate sets an annotation; an empty value removes it where it is.
func (o *order) annotate(key, value string) {
	if o.patch.Metadata.Annotations == nil {
		o.patch.Metadata.Annotations = map[string]*string{}
	}
	if value == "" {
		o.patch.Metadata.Annotations[key] = nil
		return
	}
	o.patch.Metadata.Annotations[key] = &value
}

// taint puts the UpdateInProgress taint beside those that are there, or takes it away.
func (o *order) taint(on bool) {
	var out []corev1.Taint
	for _, t := range o.node.Spec.Taints {
		if t.Key != v1alpha1.UpdateInProgressTaint {
			out = append(out, t)
		}
	}
	if on {
		out = append(out, corev1.Taint{Key: v1alpha1.UpdateInProgressTaint, Effect: corev1.TaintEffectPreferNoSchedule})
	}
	o.patch.Spec = &taintsPatch{Taints: out}
}

// orders are the writes of a wave, one a node: first what heals, then what is told, then what only marks.
// request says who asked for a config that a node is told.
func orders(w rollout.Wave, nodes map[string]*corev1.Node, request func(config string) string) []order {
	var out []order
	for _, x := range w.Release {
		o := newOrder(nodes[x.Node], fmt.Sprintf("giving up the drain of node %q", x.Node))
		o.annotate(v1alpha1.DesiredConfigAnnotation, x.Config)
		o.annotate(v1alpha1.RequestAnnotation, request(x.Config))
		o.annotate(v1alpha1.PostponedAnnotation, x.Postponed)
		o.annotate(v1alpha1.DrainsAnnotation, x.Drains)
		out = append(out, o)
	}
	for _, a := range w.Assign {
		o := newOrder(nodes[a.Node], fmt.Sprintf("telling node %q to take %q", a.Node, a.Config))
		o.annotate(v1alpha1.DesiredConfigAnnotation, a.Config)
		o.annotate(v1alpha1.RequestAnnotation, request(a.Config))
		if a.DropImage {
			o.annotate(v1alpha1.DesiredImageAnnotation, "")
		}
		if a.Untaint {
			o.taint(false)
		}
		if _, was := o.node.Annotations[v1alpha1.PostponedAnnotation]; was { // it is about who is told, and the node is now
			o.annotate(v1alpha1.PostponedAnnotation, "")
		}
		if drains, was := o.node.Annotations[v1alpha1.DrainsAnnotation]; was && !strings.HasPrefix(drains, a.Config+" ") {
			o.annotate(v1alpha1.DrainsAnnotation, "") // they were for another config
		}
		out = append(out, o)
	}
	for _, l := range w.Label {
		if l.Attest {
			continue
		}
		o := newOrder(nodes[l.Node], fmt.Sprintf("labelling node %q for its pool", l.Node))
		o.patch.Metadata.Labels = l.Labels
		o.patch.Metadata.Annotations = map[string]*string{v1alpha1.CustomPoolLabelsAppliedAnnotation: new("")}
		out = append(out, o)
	}
	ordered := make(map[string]bool, len(out))
	for i := range out {
		ordered[out[i].node.Name] = true
	}
	mark := func(names []string, what string, on bool) {
		for _, name := range names {
			if !ordered[name] { // else what is ordered may change whether it is called for
				o := newOrder(nodes[name], fmt.Sprintf(what, name))
				o.taint(on)
				out = append(out, o)
			}
		}
	}
	mark(w.Taint, "tainting node %q", true)
	mark(w.Untaint, "removing the taint of node %q", false)
	return out
}

// carryOut writes the orders, a few at a time, and returns the nodes that were written to. A node that moved meanwhile or
// is gone does not stop the others; the error is a conflict only where there is nothing worse.
func (r *Rollout) carryOut(ctx context.Context, pool string, all []order) (done map[string]bool, err error) {
	var (
		group             errgroup.Group
		mu                sync.Mutex
		failures          atomic.Int32
		conflict, serious error
	)
	done = make(map[string]bool, len(all))
	group.SetLimit(max(1, r.Writers))
	for _, o := range all {
		if failures.Load() >= enough {
			break
		}
		group.Go(func() error {
			err := r.write(ctx, pool, o)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				done[o.node.Name] = true
			case apierrors.IsNotFound(err): // its place is free; the event of its end comes
			case apierrors.IsConflict(err):
				conflict = err
			default:
				failures.Add(1)
				serious = errors.Join(serious, err)
			}
			return nil
		})
	}
	_ = group.Wait() // what went wrong is in the two errors
	if serious != nil {
		return done, serious
	}
	return done, conflict
}

// write patches one node, and remembers that it did until the informer shows it.
func (r *Rollout) write(ctx context.Context, pool string, o order) error {
	data, err := json.Marshal(o.patch)
	if err != nil {
		return fmt.Errorf("%s: %w", o.what, err)
	}
	n := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.node.Name}} // the rest of the answer is not read
	n.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err = r.Client.Patch(ctx, n, client.RawPatch(types.MergePatchType, data))
	r.Fleet.wrote(objectKey{name: o.node.Name}, outcome(pool, o.node.ResourceVersion, n.ResourceVersion, err, r.Now()))
	if err != nil {
		return fmt.Errorf("%s: %w", o.what, err)
	}
	return nil
}

// outcome is what is known after an attempt to write; nil where surely nothing was written.
func outcome(pool, before, after string, err error, now time.Time) *write {
	switch {
	case err == nil:
		return &write{pool: pool, version: after, sure: true, at: now}
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown, apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsInternalError(err), apierrors.IsUnexpectedServerError(err):
		return &write{pool: pool, version: before, at: now} // the answer was lost, not necessarily the write
	}
	return nil
}
