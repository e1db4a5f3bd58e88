package kube

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// HoldOrder is a user's request as changes to objects.
type HoldOrder struct {
	// Changes are in the order in which to apply them. If there are none, Notes say why.
	Changes []PoolChange
	Notes   []string
}

// PoolChange is one merge patch.
type PoolChange struct {
	// Resource is as kubectl writes it: mcp, node or gitsource. Name is the object's name.
	Resource, Name string
	Patch          []byte
	Did            string
}

// The values of Change.Resource.
const (
	resourcePool   = "mcp"
	resourceNode   = "node"
	resourceSource = "gitsource"
)

// Kubectl returns the equivalent command line.
func (c PoolChange) Kubectl() string {
	return fmt.Sprintf("kubectl patch %s %s --type=merge -p '%s'", c.Resource, c.Name,
		strings.ReplaceAll(string(c.Patch), "'", `'\''`))
}

// Object returns an object with the kind and the name of the one to change.
func (c PoolChange) Object() client.Object {
	meta := metav1.ObjectMeta{Name: c.Name}
	switch c.Resource {
	case resourcePool:
		return &mcfgv1.MachineConfigPool{ObjectMeta: meta}
	case resourceSource:
		return &v1alpha1.GitSource{ObjectMeta: meta}
	default:
		return &corev1.Node{ObjectMeta: meta}
	}
}

// patch removes an annotation whose value is nil. It does not change spec.paused if that is nil.
func patch(annotations map[string]*string, paused *bool) []byte {
	object := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	if paused != nil {
		object["spec"] = map[string]any{"paused": *paused}
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil // This line is unreachable, because texts and booleans always have a JSON form.
	}
	return raw
}

// HoldReason says who stops a pool, a node or a source, why, and until when; zero until a user ends it.
type HoldReason struct {
	Who, Because string
	Until        time.Time
}

func (r HoldReason) text() string { return r.Who + ": " + strings.Join(strings.Fields(r.Because), " ") }

// end is empty if only a user ends the stop.
func (r HoldReason) end() string {
	if r.Until.IsZero() {
		return ""
	}
	return r.Until.UTC().Format(time.RFC3339)
}

// ends says for users when the stop ends; the command ends it at once.
func (r HoldReason) ends(command string) string {
	if r.Until.IsZero() {
		return "until you run `" + command + "`"
	}
	return "until " + fleet.Moment(r.Until, nil, r.Until) + ", or until you run `" + command + "`"
}

// sameAnnotations reports whether an object has all wanted annotations. An empty value wants none.
func sameAnnotations(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

// annotationPatch removes an annotation whose wanted value is empty: it may be from an earlier stop, or from one that a
// user ended with kubectl.
func annotationPatch(have, want map[string]string) map[string]*string {
	out := map[string]*string{}
	for key, value := range want {
		if value != "" {
			out[key] = &value
		} else if have[key] != "" {
			out[key] = nil
		}
	}
	return out
}

// Pause stops the assignment of configs in a pool, and replaces the reason and the end of an earlier pause.
func Pause(c fleet.Cluster, pool string, why HoldReason) (HoldOrder, error) {
	at := slices.IndexFunc(c.Pools, func(p mcfgv1.MachineConfigPool) bool { return p.Name == pool })
	if at < 0 {
		return HoldOrder{}, fleet.NoPool(pool)
	}
	p, yes := &c.Pools[at], true
	want := map[string]string{
		v1alpha1.PausedByAnnotation: why.text(), v1alpha1.PausedUntilAnnotation: why.end(),
	}
	if p.Spec.Paused && sameAnnotations(p.Annotations, want) {
		return HoldOrder{Notes: []string{"pool/" + p.Name + " is paused already" + fleet.PausedBy(p) +
			"; nothing is changed"}}, nil
	}
	did := "pool/" + p.Name + " is paused: no updates, not even fixes, " + why.ends("bunsen resume pool/"+p.Name) +
		"; updates that are already running finish"
	if p.Spec.Paused {
		did += "; before, it was paused" + fleet.PausedBy(p)
	}
	return HoldOrder{
		Changes: []PoolChange{{
			Resource: resourcePool, Name: p.Name, Did: did, Patch: patch(annotationPatch(p.Annotations, want), &yes),
		}},
		Notes: owners(p),
	}, nil
}

// Resume continues the rollout of a pool. If openFor is set, the pool also opens for that time outside of its
// maintenance windows; 0 ends such an opening.
func Resume(f *fleet.Fleet, pool string, openFor *time.Duration) (HoldOrder, error) {
	v, err := f.FindPool(pool)
	if err != nil {
		return HoldOrder{}, err
	}
	p, no := v.Object, false
	annotations := map[string]*string{}
	did := "pool/" + pool
	var paused *bool
	var o HoldOrder
	if p.Spec.Paused || p.Annotations[v1alpha1.PausedByAnnotation] != "" {
		annotations[v1alpha1.PausedByAnnotation], paused = nil, &no
		if p.Annotations[v1alpha1.PausedUntilAnnotation] != "" {
			annotations[v1alpha1.PausedUntilAnnotation] = nil
		}
		did += " continues"
		if who := fleet.PausedBy(p); who != "" {
			did += "; it was paused" + who
		}
		o.Notes = owners(p)
	}
	opened := opening(p, openFor, annotations, f.Now)
	if opened != "" && paused != nil {
		did += ", and"
	}
	if did += opened; len(annotations) > 0 {
		o.Changes = []PoolChange{{Resource: resourcePool, Name: pool, Did: did, Patch: patch(annotations, paused)}}
	} else if openFor != nil {
		o.Notes = append(o.Notes, "pool/"+pool+" is not paused, and not open outside of its maintenance windows; "+
			"nothing is changed")
	} else {
		o.Notes = append(o.Notes, "pool/"+pool+" is not paused; nothing is changed")
	}
	if held := fleet.HeldBy(p); held != "" {
		o.Notes = append(o.Notes, "it is held"+held+"; bunsen release pool/"+pool+" ends the hold, and "+
			"the nodes then get the newest commit")
	}
	o.Notes = append(o.Notes, windowNotes(f, v, openFor)...)
	return o, nil
}

// opening adds to a patch how long a pool is open outside of its windows, and says so for users; "" if nothing changes.
func opening(p *mcfgv1.MachineConfigPool, openFor *time.Duration, annotations map[string]*string,
	now time.Time,
) string {
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
	was := ""
	if before, opened := fleet.OpenedUntil(p.Annotations, now); opened && !before.Equal(until) {
		was = "; before, it was open until " + fleet.Moment(before, nil, now)
	}
	return " may update outside its maintenance windows until " + fleet.Moment(until, nil, now) + was
}

func windowNotes(f *fleet.Fleet, v *fleet.Pool, openFor *time.Duration) []string {
	pool, now := v.Object.Name, f.Now
	until, opened := fleet.OpenedUntil(v.Object.Annotations, now)
	opens, shuts := openFor != nil && *openFor > 0, openFor != nil && *openFor <= 0
	switch w := f.Window(v); {
	case w == nil && opens:
		return []string{"it has no maintenance windows: it is open at any time"}
	case w == nil || opens || w.Open:
		return nil
	case shuts:
		w.OpenUntil = nil
		return []string{"its maintenance windows are " + w.Text(now)}
	case opened:
		return []string{"it was opened outside of its maintenance windows until " + fleet.Moment(until, nil, now)}
	default:
		return []string{"its maintenance windows are " + w.Text(now) + "; to continue now: bunsen resume pool/" + pool +
			" --open-for 2h"}
	}
}

// RetryPool tries the pool's config again: it removes the rollout's verdict, and the nodes that failed try once more.
// The parameter who is the name of the user, for the history.
func RetryPool(f *fleet.Fleet, pool, who string) (HoldOrder, error) {
	v, err := f.FindPool(pool)
	if err != nil {
		return HoldOrder{}, err
	}
	at := f.Now.Truncate(time.Second) // The annotation has a time in whole seconds.
	var o HoldOrder
	if r := v.Facts.Care.Record; r.Verdict != "" && r.Target() == v.Facts.Target {
		if r.At != nil && !at.After(r.At.Time) { // The clock of this machine is behind the controller's clock.
			at = r.At.Add(time.Second)
		}
		did := fmt.Sprintf("pool/%s tries %s again, which was %s: %s", pool, r.Target(),
			strings.ToLower(string(r.Verdict)), r.Why)
		o.Changes = append(o.Changes, retry(resourcePool, pool, did, at, who))
	}
	for i := range v.Facts.Nodes {
		if n := &v.Facts.Nodes[i]; n.Failing() && n.Config.Desired == v.Facts.Target {
			o.Changes = append(o.Changes, retryNode(n, at))
		}
	}
	if len(o.Changes) == 0 {
		o.Notes = append(o.Notes, "no node of pool/"+pool+" failed "+cmp.Or(v.Facts.Target.String(), "a config")+
			", and its rollout was not halted: nothing is changed")
	} else if v.Facts.Paused {
		o.Notes = append(o.Notes, "the pool is paused"+fleet.PausedBy(v.Object)+": the controller assigns no config "+
			"until bunsen resume pool/"+pool)
	}
	return o, nil
}

// RetryNode makes a node try its failed config once more.
func RetryNode(f *fleet.Fleet, name string) (HoldOrder, error) {
	node, err := f.FindNode(name)
	if err != nil {
		return HoldOrder{}, err
	}
	n := poolstate.ReadNode(node)
	if n.Done() && !n.Step.Draining {
		return HoldOrder{Notes: []string{"node/" + name + " has failed nothing: it runs " + n.Config.Current.String() +
			", its assigned config; nothing is changed"}}, nil
	}
	o := HoldOrder{Changes: []PoolChange{retryNode(&n, f.Now)}}
	if _, v := f.Find(name); v != nil && v.Facts.Care.Record.Verdict != "" &&
		v.Facts.Care.Record.Target() == v.Facts.Target {
		o.Notes = append(o.Notes, fmt.Sprintf("the rollout of pool/%s stays %s; for the other nodes: bunsen retry "+
			"pool/%s",
			v.Object.Name, strings.ToLower(string(v.Facts.Care.Record.Verdict)), v.Object.Name))
	}
	return o, nil
}

func retryNode(n *poolstate.Node, at time.Time) PoolChange {
	did := "node/" + n.Name + " tries " + cmp.Or(n.Config.Desired.String(), "its config") + " once more"
	if line, _, _ := strings.Cut(strings.TrimSpace(n.Reason), "\n"); n.Degraded() && line != "" {
		did += "; it had failed: " + line
	}
	return retry(resourceNode, n.Name, did, at, "")
}

// retry requests another try of an object, in the name of who unless that is empty.
func retry(resource, name, did string, at time.Time, who string) PoolChange {
	text := at.UTC().Format(time.RFC3339)
	annotations := map[string]*string{v1alpha1.RetryAnnotation: &text}
	if who != "" {
		annotations[v1alpha1.SteeredByAnnotation] = requestedBy(text, who)
	}
	return PoolChange{Resource: resource, Name: name, Did: did, Patch: patch(annotations, nil)}
}

func requestedBy(what, who string) *string {
	text := what + " " + strings.Join(strings.Fields(who), " ")
	return &text
}

// owners names the managers that apply spec.paused and would change it back. A GitSource is not among them: it applies
// pools without spec.paused.
func owners(p *mcfgv1.MachineConfigPool) []string {
	var out []string
	for _, m := range p.ManagedFields {
		if m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" && m.FieldsV1 != nil &&
			ownsPaused(m.FieldsV1) {
			out = append(out, fmt.Sprintf("field manager %q applies spec.paused of this pool and may change it back: "+
				"set it there as well", m.Manager))
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

// Suspend makes the controller stop following a repository: new commits have no effect, and objects that users change
// stay so. It replaces the reason and the end of a suspension that is in force.
func Suspend(c fleet.Cluster, source string, why HoldReason, now time.Time) (HoldOrder, error) {
	src, err := findSource(c, source)
	if err != nil {
		return HoldOrder{}, err
	}
	suspended := src.Spec.IsSuspended(now)
	was := ""
	if src.Spec.SuspendUntil != nil {
		was = HoldReason{Until: src.Spec.SuspendUntil.Time}.end()
	}
	if suspended && was == why.end() && src.Annotations[v1alpha1.SuspendedByAnnotation] == why.text() {
		return HoldOrder{Notes: []string{"gitsource/" + source + " is suspended already" + fleet.SuspendedBy(src) +
			"; nothing is changed"}}, nil
	}
	var until any // In the patch, null removes the end of an earlier suspension.
	if text := why.end(); text != "" {
		until = text
	}
	did := "gitsource/" + source + " is suspended: new commits have no effect, and the controller restores no " +
		"objects that users change, " + why.ends("bunsen resume gitsource/"+source) + "; the applied revision stays"
	if suspended {
		did += "; before, it was suspended" + fleet.SuspendedBy(src)
	}
	return HoldOrder{Changes: []PoolChange{suspension(source, did, why.text(),
		map[string]any{"suspend": true, "suspendUntil": until})}}, nil
}

// ResumeSource makes the controller follow the repository of a GitSource again.
func ResumeSource(c fleet.Cluster, source string, now time.Time) (HoldOrder, error) {
	src, err := findSource(c, source)
	if err != nil {
		return HoldOrder{}, err
	}
	if !src.Spec.IsSuspended(now) {
		return HoldOrder{Notes: []string{"gitsource/" + source + " is not suspended; nothing is changed"}}, nil
	}
	did := "gitsource/" + source + " is followed again: the controller applies the newest commit, and restores what " +
		"users changed of its objects"
	if who := fleet.SuspendedBy(src); who != "" {
		did += "; it was suspended" + who
	}
	return HoldOrder{Changes: []PoolChange{suspension(source, did, nil,
		map[string]any{"suspend": false, "suspendUntil": nil})}}, nil
}

// suspension removes an annotation whose value is nil.
func suspension(source, did string, annotation any, spec map[string]any) PoolChange {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.SuspendedByAnnotation: annotation}},
		"spec":     spec,
	})
	if err != nil {
		raw = nil // This line is unreachable, because texts and booleans always have a JSON form.
	}
	return PoolChange{Resource: resourceSource, Name: source, Did: did, Patch: raw}
}

func findSource(c fleet.Cluster, name string) (*v1alpha1.GitSource, error) {
	at := slices.IndexFunc(c.Sources, func(s v1alpha1.GitSource) bool { return s.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no GitSource %q: kubectl get gitsources lists those of the cluster", name)
	}
	return &c.Sources[at], nil
}
