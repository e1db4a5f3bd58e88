package revisions

import (
	"maps"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// target is an object that users edit and delete.
type target struct{ kind, name string }

// targets as steps number them.
var targets = []target{
	{revision.KindMachineConfig, "10-worker-motd"},
	{revision.KindMachineConfigPool, "gpu"},
	{revision.KindRolloutPolicy, "careful"},
	{revision.KindMachineConfig, "30-gpu-driver"},
	{revision.KindMachineConfig, "50-worker-extra"},
	{revision.KindMachineConfigPool, "infra"},
	{revision.KindMachineConfiguration, "cluster"},
	{revision.KindMachineConfigPool, "accel"},
	{revision.KindRolloutPolicy, "infra"},
}

// step does what one step says.
func (w *world) step(at int) {
	before := w.tale.events
	s := w.player.steps[at]
	switch s.Verb {
	case Push:
		pushCommit(w, s.A, s.B)
	case Source:
		reconcileSource(w, s.A, time.Duration(s.B)*time.Second, s.C)
	case Render:
		reconcileRender(w, poolNames[s.A%len(poolNames)], s.B, s.C)
	case Rollout:
		rolloutOnce(w, poolNames[s.A%len(poolNames)], s.B)
	case Sync:
		w.sync(controllerID(s.A%int(controllers)), s.B, s.C)
	case Restart:
		w.tell("the controllers crash and start again")
		w.restart()
	case Edit:
		editObject(w, targets[s.A%len(targets)], s.B)
	case Remove:
		removeObject(w, targets[s.A%len(targets)])
	case Relabel:
		relabelNode(w, s.A, s.B)
	case Git, Suspend, Prune:
		toggle(w, s.Verb, s.A, s.B == 1)
	}
	w.player.moved[at] = w.player.moved[at] || w.tale.events != before
}

// pushCommit makes a commit.
func pushCommit(w *world, repo, tree int) {
	if repo >= w.setup.Sources {
		return
	}
	r := w.remotes[repo]
	r.trees = append(r.trees, tree)
	w.tell("commit %d of the repository of GitSource %s: %s", len(r.trees), sourceNames[repo], describeTree(repo, tree))
	if w.running.overtaken != nil && w.running.active == repo && !r.away {
		w.tell("it overtakes the one that is applied")
		close(w.running.overtaken)
		w.running.overtaken = nil
		w.now = w.now.Add(time.Minute) // The next listing is due.
	}
}

// toggle turns something of a source on or off.
func toggle(w *world, verb Verb, repo int, on bool) {
	if repo >= w.setup.Sources {
		return
	}
	switch verb {
	case Git:
		if w.remotes[repo].away != on {
			w.tell("the remote of GitSource %s is away: %t", sourceNames[repo], on)
			w.remotes[repo].away = on
		}
	case Suspend:
		src := w.api.objects[kindSource][sourceNames[repo]].DeepCopyObject().(*v1alpha1.GitSource)
		if src.Spec.Suspend != on {
			w.tell("GitSource %s is suspended: %t", src.Name, on)
			src.Spec.Suspend = on
			w.api.put(src)
		}
	case Prune:
		setPrune(w, repo, !on)
	}
}

// setPrune sets whether a source prunes.
func setPrune(w *world, repo int, on bool) {
	src := w.api.objects[kindSource][sourceNames[repo]].DeepCopyObject().(*v1alpha1.GitSource)
	if *src.Spec.Prune == on {
		return
	}
	w.tell("GitSource %s prunes: %t", src.Name, on)
	w.ledger.kept[repo] = w.ledger.kept[repo] || !on
	src.Spec.Prune = &on
	w.api.put(src)
}

// relabelNode gives a node the label of another custom pool.
func relabelNode(w *world, node, label int) {
	if node >= len(w.setup.Nodes) {
		return
	}
	n := w.api.objects[kindNode][nodeName(node)].DeepCopyObject().(*corev1.Node)
	was := maps.Clone(n.Labels)
	for _, l := range nodeLabels[1:] {
		delete(n.Labels, rolePrefix+l)
	}
	if label %= len(nodeLabels); label > 0 {
		n.Labels[rolePrefix+nodeLabels[label]] = ""
	}
	if !maps.Equal(was, n.Labels) {
		w.tell("a user labels %s %v", n.Name, slices.Sorted(maps.Keys(n.Labels)))
		w.api.put(n)
	}
}

// owned returns a copy of a live object that a source owns; nil where there is none.
func (w *world) owned(t target) client.Object {
	o, ok := w.api.objects[t.kind][t.name]
	if !ok || o.GetLabels()[v1alpha1.SourceLabel] == "" {
		return nil
	}
	return o.DeepCopyObject().(client.Object)
}

// removeObject deletes an object of a source.
func removeObject(w *world, t target) {
	if w.owned(t) == nil {
		return
	}
	w.tell("a user deletes %s %s", t.kind, t.name)
	w.ledger.deleted = w.ledger.deleted || t.name == "gpu"
	w.api.remove(t.kind, t.name)
}

// editObject changes an object of a source.
func editObject(w *world, t target, way int) {
	o := w.owned(t)
	if o == nil {
		return
	}
	var what string
	switch o := o.(type) {
	case *mcfgv1.MachineConfig:
		what = editConfig(o, way)
	case *mcfgv1.MachineConfigPool:
		what = editPool(o, way)
	case *v1alpha1.RolloutPolicy:
		most := intstr.FromInt32(int32(5 + way%3))
		o.Spec.MaxUnavailable, what = &most, "maxUnavailable"
	case *operatorv1.MachineConfiguration:
		o.Spec.NodeDisruptionPolicy.Files, what = nil, "its actions"
	}
	w.tell("a user edits %s of %s %s", what, t.kind, t.name)
	w.api.put(o)
}

func editConfig(mc *mcfgv1.MachineConfig, way int) string {
	switch way % 3 {
	case 0:
		mc.Spec.KernelArguments = []string{"quiet"}
		return "the kernel arguments"
	case 1:
		mc.Labels[v1alpha1.RoleLabel] = "gpu"
		return "the role"
	}
	mc.Labels["gpu"] = ""
	return "a label that is not the role"
}

func editPool(p *mcfgv1.MachineConfigPool, way int) string {
	switch way % 5 {
	case 0:
		p.Spec.MachineConfigSelector = &metav1.LabelSelector{
			MatchLabels: map[string]string{v1alpha1.RoleLabel: "worker"},
		}
		return "the machineConfigSelector"
	case 1:
		p.Spec.MachineConfigSelector.MatchExpressions = append(p.Spec.MachineConfigSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{
				Key: v1alpha1.RoleLabel, Operator: metav1.LabelSelectorOpNotIn,
				Values: []string{"gpu", "infra"},
			})
		return "an additional requirement of the machineConfigSelector"
	case 2:
		if p.Spec.MachineConfigSelector.MatchLabels == nil {
			p.Spec.MachineConfigSelector.MatchLabels = map[string]string{}
		}
		p.Spec.MachineConfigSelector.MatchLabels[v1alpha1.RoleLabel] = "worker"
		return "an additional label of the machineConfigSelector"
	case 3:
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{rolePrefix + "accelerator": ""}}
		return "the nodeSelector"
	}
	most := intstr.FromInt32(2)
	p.Spec.MaxUnavailable = &most
	return "maxUnavailable, which the repository does not name,"
}
