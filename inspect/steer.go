package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// Order is what a person asks for: changes to objects, and what he should know about them.
type Order struct {
	// Changes in the order to make them; none: there is nothing to do, and Notes say why.
	Changes []Change
	Notes   []string
}

// Change is one merge patch.
type Change struct {
	// Resource as kubectl writes it, mcp or node, and the object's Name.
	Resource, Name string
	// Patch is a JSON merge patch.
	Patch []byte
	// Did is what it does, in words.
	Did string
}

// Resources of changes.
const (
	resourcePool = "mcp"
	resourceNode = "node"
)

// Kubectl is the command line that does the same.
func (c Change) Kubectl() string {
	return fmt.Sprintf("kubectl patch %s %s --type=merge -p '%s'", c.Resource, c.Name, strings.ReplaceAll(string(c.Patch), "'", `'\''`))
}

// OfPool tells whether the change is to a pool, else it is to a node.
func (c Change) OfPool() bool { return c.Resource == resourcePool }

// change is a merge patch of annotations, nil to remove one, and of spec.paused unless that is nil.
func change(resource, name, did string, annotations map[string]*string, paused *bool) Change {
	type metadata struct {
		Annotations map[string]*string `json:"annotations"`
	}
	type spec struct {
		Paused *bool `json:"paused,omitempty"`
	}
	type patch struct {
		Metadata metadata `json:"metadata"`
		Spec     *spec    `json:"spec,omitempty"`
	}
	p := patch{Metadata: metadata{annotations}}
	if paused != nil {
		p.Spec = &spec{paused}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		raw = nil // it consists of texts and truth values, which always marshal
	}
	return Change{Resource: resource, Name: name, Patch: raw, Did: did}
}

// Pause tells nodes of a pool nothing new from now on. who asks for it, because of what.
func Pause(p *mcfgv1.MachineConfigPool, who, because string) Order {
	if p.Spec.Paused {
		return Order{Notes: []string{"pool/" + p.Name + " is paused already" + by(p) + "; nothing is changed"}}
	}
	text, yes := who+": "+strings.Join(strings.Fields(because), " "), true
	did := "pool/" + p.Name + " is paused: no updates, not even fixes, until you run `bunsen resume pool/" + p.Name + "`; updates that are already running finish"
	return Order{
		Changes: []Change{change(resourcePool, p.Name, did, map[string]*string{v1alpha1.PausedByAnnotation: &text}, &yes)},
		Notes:   owners(p),
	}
}

// Resume lets a pool go on. With openFor it does so for that long also outside of its maintenance windows; 0 takes back that
// somebody let it.
func Resume(c Cluster, pool string, openFor *time.Duration, now time.Time) (Order, error) {
	f := newFleet(c, now)
	v := f.pools[pool]
	if v == nil {
		return Order{}, fmt.Errorf("there is no pool %q; `bunsen get pools` lists them", pool)
	}
	p, no := v.object, false
	annotations := map[string]*string{}
	did := "pool/" + pool
	var paused *bool
	var o Order
	if p.Spec.Paused || p.Annotations[v1alpha1.PausedByAnnotation] != "" {
		annotations[v1alpha1.PausedByAnnotation], paused = nil, &no
		did += " goes on"
		if who := by(p); who != "" {
			did += "; it was paused" + who
		}
		o.Notes = owners(p)
	}
	opened := opening(p, openFor, annotations, now)
	if opened != "" && paused != nil {
		did += ", and"
	}
	if did += opened; len(annotations) > 0 {
		o.Changes = []Change{change(resourcePool, pool, did, annotations, paused)}
	} else {
		o.Notes = append(o.Notes, "pool/"+pool+" is not paused; nothing is changed")
	}
	o.Notes = append(o.Notes, f.windowNotes(v, openFor)...)
	return o, nil
}

// opening puts into the annotations how long a pool is open outside of its windows, and says so; empty: that stays as it is.
func opening(p *mcfgv1.MachineConfigPool, openFor *time.Duration, annotations map[string]*string, now time.Time) string {
	switch {
	case openFor == nil, *openFor <= 0 && p.Annotations[v1alpha1.OpenUntilAnnotation] == "":
		return ""
	case *openFor <= 0:
		annotations[v1alpha1.OpenUntilAnnotation] = nil
		return " updates only in its maintenance windows again"
	}
	until := now.Add(*openFor).UTC().Truncate(time.Second)
	text := until.Format(time.RFC3339)
	annotations[v1alpha1.OpenUntilAnnotation] = &text
	return " may update outside its maintenance windows until " + moment(until, nil, now)
}

// windowNotes are what somebody who resumes a pool should know about its windows.
func (f *fleet) windowNotes(v *poolView, openFor *time.Duration) []string {
	pool, now := v.object.Name, f.now
	until, opened := openedUntil(v.object.Annotations, now)
	opens, shuts := openFor != nil && *openFor > 0, openFor != nil && *openFor <= 0
	switch w := f.window(v); {
	case w == nil && opens:
		return []string{"it has no maintenance windows: it is open at any time"}
	case w == nil || opens || w.Open:
		return nil
	case shuts:
		w.OpenUntil = nil
		return []string{"its maintenance windows are " + w.Text(now)}
	case opened:
		return []string{"it was opened outside of its maintenance windows until " + moment(until, nil, now)}
	default:
		return []string{"its maintenance windows are " + w.Text(now) + "; to let it go on now: bunsen resume pool/" + pool + " --open-for 2h"}
	}
}

// RetryPool tries the pool's config again: a verdict is lifted, and the nodes that failed the config try it once more.
func RetryPool(c Cluster, pool string, now time.Time) (Order, error) {
	f := newFleet(c, now)
	v := f.pools[pool]
	if v == nil {
		return Order{}, fmt.Errorf("there is no pool %q; `bunsen get pools` lists them", pool)
	}
	at := now.Truncate(time.Second) // as the annotation has it
	var o Order
	if r := v.facts.Care.Record; r.Verdict != "" && r.Config == v.facts.Target {
		if r.At != nil && !at.After(r.At.Time) { // this machine's clock is behind the controller's
			at = r.At.Add(time.Second)
		}
		did := fmt.Sprintf("pool/%s tries %s again, which was %s: %s", pool, r.Config, strings.ToLower(string(r.Verdict)), r.Why)
		o.Changes = append(o.Changes, retry(resourcePool, pool, did, at))
	}
	for i := range v.facts.Nodes {
		if n := &v.facts.Nodes[i]; n.Failing() && n.Config.Desired == v.facts.Target {
			o.Changes = append(o.Changes, retryNode(n, at))
		}
	}
	if len(o.Changes) == 0 {
		o.Notes = append(o.Notes, "no node of pool/"+pool+" failed "+cmp.Or(v.facts.Target, "a config")+", and its rollout was not halted: nothing is changed")
	} else if v.facts.Paused {
		o.Notes = append(o.Notes, "the pool is paused"+by(v.object)+": no further node is told anything until bunsen resume pool/"+pool)
	}
	return o, nil
}

// RetryNode lets a node try once more what it failed.
func RetryNode(c Cluster, name string, now time.Time) (Order, error) {
	at := slices.IndexFunc(c.Nodes, func(n corev1.Node) bool { return n.Name == name })
	if at < 0 {
		return Order{}, fmt.Errorf("there is no node %q; `bunsen get nodes` lists them", name)
	}
	n := rollout.ReadNode(&c.Nodes[at])
	if n.Done() && !n.Step.Draining {
		return Order{Notes: []string{"node/" + name + " has failed nothing: it runs " + n.Config.Current + ", which it was told; nothing is changed"}}, nil
	}
	o := Order{Changes: []Change{retryNode(&n, now)}}
	f := newFleet(c, now)
	if _, v := f.find(name); v != nil && v.facts.Care.Record.Verdict != "" && v.facts.Care.Record.Config == v.facts.Target {
		o.Notes = append(o.Notes, fmt.Sprintf("the rollout of pool/%s stays %s; for the other nodes: bunsen retry pool/%s",
			v.object.Name, strings.ToLower(string(v.facts.Care.Record.Verdict)), v.object.Name))
	}
	return o, nil
}

func retryNode(n *rollout.Node, at time.Time) Change {
	did := "node/" + n.Name + " tries " + cmp.Or(n.Config.Desired, "its config") + " once more"
	if line, _, _ := strings.Cut(strings.TrimSpace(n.Reason), "\n"); n.Degraded() && line != "" {
		did += "; it had failed: " + line
	}
	return retry(resourceNode, n.Name, did, at)
}

func retry(resource, name, did string, at time.Time) Change {
	text := at.UTC().Format(time.RFC3339)
	return change(resource, name, did, map[string]*string{v1alpha1.RetryAnnotation: &text}, nil)
}

// owners names whoever applies spec.paused and would change it back. A GitSource does not: it applies pools without it.
func owners(p *mcfgv1.MachineConfigPool) []string {
	var out []string
	for _, m := range p.ManagedFields {
		if m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" && m.FieldsV1 != nil && ownsPaused(m.FieldsV1) {
			out = append(out, fmt.Sprintf("field manager %q applies spec.paused of this pool and may change it back: set it there as well", m.Manager))
		}
	}
	return out
}

func ownsPaused(fields *metav1.FieldsV1) bool {
	var owned struct {
		Spec struct {
			Paused *struct{} `json:"f:paused"`
		} `json:"f:spec"`
	}
	return json.Unmarshal(fields.GetRawBytes(), &owned) == nil && owned.Spec.Paused != nil
}
