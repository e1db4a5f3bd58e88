package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxFailedWrites of a decision end it: the cause is probably not a node, so the others would fail too.
const maxFailedWrites = 8

type nodeWrite struct {
	// as decided about; shared with the informer
	node *corev1.Node
	// for an error: "assigning v1 to node n1"
	what  string
	patch nodePatch
}

// nodePatch is a JSON merge patch, for the version of the decision alone: one on stale facts could exceed the budget.
type nodePatch struct {
	Metadata struct {
		ResourceVersion string             `json:"resourceVersion"`
		Annotations     map[string]*string `json:"annotations,omitempty"`
		Labels          map[string]string  `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec *taintsPatch `json:"spec,omitempty"`
}

// taintsPatch replaces all; nil removes them.
type taintsPatch struct {
	Taints []corev1.Taint `json:"taints"`
}

func newNodeWrite(n *corev1.Node, what string) nodeWrite {
	o := nodeWrite{node: n, what: what}
	o.patch.Metadata.ResourceVersion = n.ResourceVersion
	return o
}

// annotate removes an annotation with an empty value.
func (o *nodeWrite) annotate(key, value string) {
	if o.patch.Metadata.Annotations == nil {
		o.patch.Metadata.Annotations = map[string]*string{}
	}
	if value == "" {
		o.patch.Metadata.Annotations[key] = nil
		return
	}
	o.patch.Metadata.Annotations[key] = &value
}

// assign sets the desired config and who requested it.
func (o *nodeWrite) assign(config v1alpha1.ConfigVersion, request string) {
	o.annotate(v1alpha1.DesiredConfigAnnotation, config.Config)
	o.annotate(v1alpha1.RequestAnnotation, request)
	if _, was := o.node.Annotations[v1alpha1.NextConfigAnnotation]; was {
		o.annotate(v1alpha1.NextConfigAnnotation, "") // The node gets a config now.
	}
	if _, was := o.node.Annotations[v1alpha1.DesiredSecretsAnnotation]; was || config.Secrets != "" {
		o.annotate(v1alpha1.DesiredSecretsAnnotation, config.Secrets)
	}
}

func (o *nodeWrite) taint(on bool) {
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

// dropImage: the image that the node has besides its config.
func (o *nodeWrite) dropImage() {
	for _, key := range []string{v1alpha1.DesiredImageAnnotation, v1alpha1.CurrentImageAnnotation} {
		if _, was := o.node.Annotations[key]; was {
			o.annotate(key, "")
		}
	}
}

func announcements(w poolstate.Decision, nodes map[string]*corev1.Node) (out []nodeWrite) {
	for _, a := range w.Announce {
		o := newNodeWrite(nodes[a.Node], fmt.Sprintf("naming the next config of node %q", a.Node))
		o.annotate(v1alpha1.NextConfigAnnotation, a.Next)
		if a.Taint || a.Untaint {
			o.taint(a.Taint)
		}
		out = append(out, o)
	}
	return out
}

// carryOut executes the writes, a few at a time, and returns the nodes that were written. It continues after a node
// that has changed or is deleted. A conflict is returned only if there is no other error.
func (r *Controller) carryOut(ctx context.Context, pool string, all []nodeWrite) (done map[string]bool, err error) {
	var (
		group             errgroup.Group
		mu                sync.Mutex
		failures          atomic.Int32
		conflict, serious error
	)
	done = make(map[string]bool, len(all))
	group.SetLimit(max(1, r.Writers))
	for _, o := range all {
		if failures.Load() >= maxFailedWrites {
			break
		}
		group.Go(func() error {
			err := r.write(ctx, pool, o)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				done[o.node.Name] = true
			case apierrors.IsNotFound(err): // The node was deleted, and the deletion triggers an event.
			case apierrors.IsConflict(err):
				conflict = err
			default:
				failures.Add(1)
				serious = errors.Join(serious, err)
			}
			return nil
		})
	}
	_ = group.Wait() // The error of the group is not needed, because the two errors contain every failure.
	if serious != nil {
		return done, serious
	}
	return done, conflict
}

// write stores the write until the informer shows it.
func (r *Controller) write(ctx context.Context, pool string, o nodeWrite) error {
	data, err := json.Marshal(o.patch)
	if err != nil {
		return fmt.Errorf("%s: %w", o.what, err)
	}
	n := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.node.Name}}
	n.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err = r.Client.Patch(ctx, n, client.RawPatch(types.MergePatchType, data))
	r.Fleet.addWrite(pool, objectKey{name: o.node.Name}, o.node.ResourceVersion, n.ResourceVersion, err, r.Now())
	if err != nil {
		return fmt.Errorf("%s: %w", o.what, err)
	}
	return nil
}

// unattestedNodes have no record of their attested pool yet.
func unattestedNodes(w poolstate.Decision) []string {
	var names []string
	for _, l := range w.Label {
		if l.Attest {
			names = append(names, l.Node)
		}
	}
	return names
}

// requester returns who last requested a rendered config of a pool: from the pool's own records, else the history of
// its GitSource, else the commit from which the config was first rendered; zero if all these are missing.
func (r *Controller) requester(ctx context.Context, pool *mcfgv1.MachineConfigPool, name string) v1alpha1.Requester {
	asked := v1alpha1.RequesterOf(pool.Annotations, name)
	if asked.Subject != "" || len(asked.API) > 0 {
		return asked
	}
	src := &v1alpha1.GitSource{}
	key := client.ObjectKey{Name: pool.Annotations[v1alpha1.SourceAnnotation]}
	if key.Name != "" && r.Client.Get(ctx, key, src) == nil { // Naming an older commit is better than naming none.
		if c := v1alpha1.AskedBy(src.Status.History, pool.Name, name); c != nil {
			return v1alpha1.Requester{Revision: c.Revision, Subject: c.Subject, Author: c.Author}
		}
	}
	mc, _ := r.config(ctx, name)
	if mc == nil || asked.Revision != "" && mc.Annotations[v1alpha1.RevisionAnnotation] != asked.Revision {
		return asked
	}
	return v1alpha1.Requester{
		Revision: mc.Annotations[v1alpha1.RevisionAnnotation],
		Subject:  mc.Annotations[v1alpha1.CommitSubjectAnnotation],
		Author:   mc.Annotations[v1alpha1.CommitAuthorAnnotation],
	}
}

// requestTexts returns who requested each config that a decision assigns, as RequestAnnotation has it; empty if that is
// unknown. An assigned config may be that of one node, and then belongs to the pool's.
func (r *Controller) requestTexts(ctx context.Context, pool *mcfgv1.MachineConfigPool,
	w poolstate.Decision,
) map[string]string {
	texts := map[string]string{}
	add := func(config, of string) {
		if _, known := texts[config]; known {
			return
		}
		texts[config] = ""
		if asked := r.requester(ctx, pool, of); asked.Revision != "" || len(asked.API) > 0 {
			texts[config] = v1alpha1.ConfigRequest{Config: config, Requester: asked}.String()
		}
	}
	for _, x := range w.Release {
		add(x.Config.Config, x.Config.Config)
	}
	for _, a := range w.Assign {
		add(a.Config.Config, w.Target.Config)
	}
	return texts
}

func (r *Controller) commit(ctx context.Context, pool *mcfgv1.MachineConfigPool, name string) string {
	return kube.RequesterText(r.requester(ctx, pool, name))
}

// nodeWrites returns one write for each node of a decision: first postponed drains, then assigned configs, then labels
// and taints. requests says who requested each config.
func nodeWrites(w poolstate.Decision, nodes map[string]*corev1.Node, requests map[string]string) []nodeWrite {
	var out []nodeWrite
	for _, x := range w.Release {
		o := newNodeWrite(nodes[x.Node], fmt.Sprintf("postponing the drain of node %q", x.Node))
		o.assign(x.Config, requests[x.Config.Config])
		o.annotate(v1alpha1.PostponedAnnotation, x.Postponed)
		o.annotate(v1alpha1.DrainsAnnotation, x.Drains)
		out = append(out, o)
	}
	for _, a := range w.Assign {
		o := newNodeWrite(nodes[a.Node], fmt.Sprintf("assigning %[2]q to node %[1]q", a.Node, a.Config))
		o.assign(a.Config, requests[a.Config.Config])
		if a.DropImage {
			o.dropImage()
		}
		if a.Untaint {
			o.taint(false)
		}
		// Its drain is not postponed any more.
		if _, was := o.node.Annotations[v1alpha1.PostponedAnnotation]; was {
			o.annotate(v1alpha1.PostponedAnnotation, "")
		}
		if drains, was := o.node.Annotations[v1alpha1.DrainsAnnotation]; was && !strings.HasPrefix(drains,
			w.Target.String()+" ") {
			o.annotate(v1alpha1.DrainsAnnotation, "") // The recorded drains were for another config.
		}
		out = append(out, o)
	}
	out = append(out, announcements(w, nodes)...)
	for _, l := range w.Label {
		if l.Attest {
			continue
		}
		o := newNodeWrite(nodes[l.Node], fmt.Sprintf("labelling node %q for its pool", l.Node))
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
			if !ordered[name] { // Another write to the node already sets or removes its taint.
				o := newNodeWrite(nodes[name], fmt.Sprintf(what, name))
				o.taint(on)
				out = append(out, o)
			}
		}
	}
	for _, name := range w.DropImage {
		if !ordered[name] { // Another write to the node comes first; the next decision removes the image.
			o := newNodeWrite(nodes[name], fmt.Sprintf("removing the image of node %q", name))
			o.dropImage()
			out, ordered[name] = append(out, o), true
		}
	}
	mark(w.Taint, "tainting node %q", true)
	mark(w.Untaint, "removing the taint of node %q", false)
	return out
}
