package histories

import (
	"cmp"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// hasFiles tells whether a config has remote files, and ahead whether the daemon of a machine downloads them before it
// is told the config.
func (s Setup) hasFiles(number int) bool { return s.Downloads>>(number%32)&1 == 1 }
func (s Setup) ahead(machine int) bool   { return s.Downloads>>(32+machine)&1 == 1 }

// fetches tells whether nodes have to download files of a config that those with another one may lack. Each config has
// files of its own.
func (w *world) fetches(f poolstate.Facts) bool {
	target := f.Target.Config
	c := w.made[target]
	return c != nil && c.files && target != f.Care.Healthy.Config
}

// lacks tells whether a machine has no files of a config, which it would need.
func (w *world) lacks(m *machine, at string) bool {
	c := w.made[nameOf(at)]
	if c == nil || !c.files || c.name == nameOf(m.inForce) || c.name == nameOf(m.before) {
		return false
	}
	return !slices.Contains(m.files, c.name)
}

// download brings the files of a config onto a machine, unless it is cut off from their server.
func (w daemon) download(m *machine, at string) bool {
	if !w.lacks(m, at) {
		return true
	}
	if m.cutOff {
		return false
	}
	m.files = append(m.files, nameOf(at))
	w.tell("%s downloads the files of %s", m.name, nameOf(at))
	return true
}

// fetch downloads the files of the config that the machine was told, and says so if it cannot.
func (w daemon) fetch(m *machine, desired string) bool {
	if w.download(m, desired) {
		w.report(m, map[string]string{v1alpha1.FetchedAnnotation: ""})
		return true
	}
	if w.setup.ahead(m.number) {
		r := v1alpha1.FetchReport{
			Config:  nameOf(desired),
			Problem: "the server of files cannot be reached",
		}
		w.report(m, map[string]string{v1alpha1.FetchedAnnotation: r.String()})
	}
	return false
}

// silent tells whether a machine of the pool waits for files, and its daemon does not say so.
func (w truth) silent(f poolstate.Facts) bool {
	return slices.ContainsFunc(f.Nodes, func(n poolstate.Node) bool {
		m := w.machineOf(n.Name)
		return w.cut(m) && !w.setup.ahead(m.number)
	})
}

// follow downloads for the config that the node gets next, and reports how it went.
func (w daemon) follow(m *machine, n *corev1.Node) {
	next := v1alpha1.ParseNextConfig(n.Annotations[v1alpha1.NextConfigAnnotation]).Config
	if !w.setup.ahead(m.number) {
		return
	}
	keep := []string{nameOf(m.inForce), nameOf(m.before), next}
	m.files = slices.DeleteFunc(m.files, func(config string) bool { return !slices.Contains(keep, config) })
	var r v1alpha1.FetchReport
	if next != "" && next != nameOf(m.inForce) {
		if r.Config = next; !w.download(m, next) {
			r.Problem = "the server of files cannot be reached"
		}
	}
	w.report(m, map[string]string{v1alpha1.FetchedAnnotation: r.String()})
}

// downloads checks that a node in service is told a config only with its files.
func (v verdict) downloads() {
	if !v.decision.Record.Fetches || v.decision.Target != v.f.Target {
		return
	}
	target := v.decision.Target.Config
	for _, n := range v.fresh {
		has := n.Next.Config == target && n.Fetched.Config == target && n.Fetched.Problem == ""
		if n.Ahead && !has && !out(n) && done(n) && n.Config.Current != v.decision.Target {
			v.breaks(FilesFirst, "%s is told %s and does not say that it has its files", n.Name, v.decision.Target)
		}
	}
}

// cut says whether a machine waits for files that it cannot download.
func (w truth) cut(m *machine) bool {
	n := w.api.nodes[m.name]
	if n == nil || !m.cutOff {
		return false
	}
	p := w.poolOf(n)
	return w.lacks(m, desiredOf(n)) || p != nil && w.lacks(m, p.Spec.Configuration.Name)
}

// staysInService tells that a machine waits for files and holds nobody else.
func (w truth) staysInService(m *machine) bool {
	n := w.api.nodes[m.name]
	if n == nil || !w.cut(m) || !w.setup.ahead(m.number) {
		return false
	}
	read := poolstate.ReadNode(n)
	return !out(&read)
}

// withDownloads gives a third of the histories remote files, and steps that cut machines off. The other histories stay
// as they are.
func withDownloads(h History) History {
	g := generator{rand.New(rand.NewPCG(h.Seed, 0x66696c6573))}
	if !g.one(3) {
		return h
	}
	h.Setup.Downloads = uint64(g.Uint32()|g.Uint32()) | (g.Uint64()|g.Uint64())<<32
	var steps []Step
	for _, s := range h.Steps {
		if steps = append(steps, s); g.one(20) {
			steps = append(steps, Step{Verb: CutOff, A: g.IntN(maxMachines), B: g.IntN(3)})
		}
	}
	h.Steps = steps
	return h
}

// mark is what the controller writes to nodes that download ahead, and to those that get or lose a taint.
func mark(decision poolstate.Decision, onNode func(name, what string, edit func(*corev1.Node))) {
	for _, a := range decision.Announce {
		onNode(a.Node, "lets "+a.Node+" download for "+cmp.Or(a.Next, "nothing"), func(n *corev1.Node) {
			if n.Annotations[v1alpha1.NextConfigAnnotation] = a.Next; a.Next == "" {
				delete(n.Annotations, v1alpha1.NextConfigAnnotation)
			}
			if a.Taint || a.Untaint {
				n.Spec.Taints = withTaint(n.Spec.Taints, a.Taint)
			}
		})
	}
	for _, name := range decision.Taint {
		onNode(name, "taints "+name, func(n *corev1.Node) { n.Spec.Taints = withTaint(n.Spec.Taints, true) })
	}
	for _, name := range decision.Untaint {
		onNode(name, "removes the taint of "+name, func(n *corev1.Node) {
			n.Spec.Taints = withTaint(n.Spec.Taints, false)
		})
	}
}
