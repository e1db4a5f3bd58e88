package histories

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// daemon plays the daemons of machines, as mcd/agent is one.
type daemon struct{ *world }

// daemon lets a machine's daemon look at its Node and do the next thing, as mcd/agent does.
func (w daemon) act(m *machine) {
	n := w.api.nodes[m.name]
	if m.power != up || n == nil {
		return
	}
	if m.doing != "" {
		w.apply(m)
		return
	}
	a := n.Annotations
	desired := desiredOf(n)
	if a[v1alpha1.CurrentConfigAnnotation] == "" && m.inForce != "" && m.inForce != desired {
		seed := map[string]string{v1alpha1.CurrentConfigAnnotation: m.inForce}
		if desired == "" {
			seed[v1alpha1.DesiredConfigAnnotation] = m.inForce
		}
		w.report(m, seed)
		return
	}
	if desired == "" {
		w.report(m, map[string]string{
			v1alpha1.StateAnnotation: v1alpha1.StateDone, v1alpha1.ReasonAnnotation: "",
			v1alpha1.FailureAnnotation: "",
		})
		return
	}
	if m.verdict != "" && (m.verdict != desired || asked(a).After(m.verdictAt)) {
		m.verdict = ""
	}
	switch {
	case m.inForce == desired:
		w.confirm(m, n)
	case m.verdict != "":
		w.fail(m, v1alpha1.StateDegraded, desired, m.name+" did not live with "+desired)
	default:
		w.update(m, n, desired)
	}
}

// asked is when somebody asked to try again.
func asked(annotations map[string]string) time.Time {
	t, err := time.Parse(time.RFC3339, annotations[v1alpha1.RetryAnnotation])
	if err != nil {
		return time.Time{}
	}
	return t
}

// update brings a machine to a config as far as it can get now.
func (w daemon) update(m *machine, n *corev1.Node, desired string) {
	c, a := w.configOf(desired), n.Annotations
	if m.failed != desired {
		m.tries = 0
	}
	if m.tries > manyTries {
		return
	}
	if !w.canGet(m, desired) { // the controller tells it a newer revision
		return
	}
	m.fetched = desired
	if w.api.configs[nameOf(desired)] == nil { // it cannot be fetched
		m.failed = desired
		w.fail(m, v1alpha1.StateDegraded, desired, "fetching "+desired)
		return
	}
	if c.hits(m) && c.ails == refused {
		w.fail(m, v1alpha1.StateUnreconcilable, desired, desired+" cannot be taken by a running node")
		return
	}
	if m.failed != desired && a[v1alpha1.StateAnnotation] != v1alpha1.StateWorking {
		w.report(m, map[string]string{
			v1alpha1.StateAnnotation: v1alpha1.StateWorking, v1alpha1.ReasonAnnotation: "",
			v1alpha1.FailureAnnotation: "", v1alpha1.PostConfigActionAnnotation: "",
		})
		return
	}
	if m.inForce != "" && currentOf(n) != m.inForce {
		w.report(m, map[string]string{v1alpha1.CurrentConfigAnnotation: m.inForce})
		return
	}
	if !w.fetch(m, desired) {
		return
	}
	needs := w.needs(m.inForce, desired)
	want := v1alpha1.DrainVerb + "-" + nameOf(desired)
	if needs >= drained && (a[v1alpha1.DesiredDrainAnnotation] != want ||
		a[v1alpha1.LastAppliedDrainAnnotation] != want) {
		w.report(m, map[string]string{v1alpha1.DesiredDrainAnnotation: want})
		return
	}
	watcher(w).begins(m, n, desired)
	m.doing, m.failed = desired, desired
	if needs == rebooted {
		w.report(m, map[string]string{v1alpha1.PostConfigActionAnnotation: "Rebooting"})
	}
}

// needs is what the way from one config to another asks of a node.
func (w *world) needs(from, to string) need {
	if c := w.configOf(from); c != nil && nameOf(from) == nameOf(to) {
		return max(c.turns, w.configOf(to).turns)
	}
	most := w.configOf(to).needs
	if c := w.configOf(from); c != nil {
		most = max(most, c.needs)
	}
	return most
}

// apply does the steps that are under way.
func (w daemon) apply(m *machine) {
	c, needs := w.configOf(m.doing), w.needs(m.inForce, m.doing)
	failing := c.hits(m)
	switch {
	case failing && (c.ails == early || c.ails == late || c.ails == flaky && m.tries < 2):
		m.tries++
		m.doing = ""
		w.fail(m, v1alpha1.StateDegraded, c.name, "updating to "+c.name+": restarting chronyd.service")
	case failing && needs < rebooted && (c.ails == rejected || c.ails == dead):
		m.doing, m.verdict, m.verdictAt = "", c.name, w.now
		w.fail(m, v1alpha1.StateDegraded, c.name, m.name+" did not live with "+c.name)
	case needs == rebooted:
		m.power = goingDown
		w.tell("%s reboots into %s", m.name, m.doing)
	default:
		m.inForce, m.before, m.doing, m.drifted = m.doing, m.inForce, "", false
		w.tell("%s takes %s in place", m.name, m.inForce)
	}
}

// confirm tells that the desired config is in force, after the node was opened again.
func (w daemon) confirm(m *machine, n *corev1.Node) {
	a, want := n.Annotations, v1alpha1.UncordonVerb+"-"+nameOf(m.inForce)
	drain, applied := a[v1alpha1.DesiredDrainAnnotation], a[v1alpha1.LastAppliedDrainAnnotation]
	verb, _, _ := strings.Cut(drain, "-")
	switch {
	case m.drifted:
		w.fail(m, v1alpha1.StateDegraded, m.inForce, "/etc/chrony.conf is not as "+m.inForce+" has it")
		return
	case verb == v1alpha1.DrainVerb || verb == v1alpha1.UncordonVerb && drain != want && drain != applied:
		w.report(m, map[string]string{v1alpha1.DesiredDrainAnnotation: want})
		return
	case verb == v1alpha1.UncordonVerb && drain != applied:
		return
	}
	m.failed, m.tries = "", 0
	w.report(m, map[string]string{
		v1alpha1.CurrentConfigAnnotation: m.inForce, v1alpha1.StateAnnotation: v1alpha1.StateDone,
		v1alpha1.ReasonAnnotation: "", v1alpha1.FailureAnnotation: "", v1alpha1.PostConfigActionAnnotation: "",
	})
	w.follow(m, n)
}

// fail reports that the machine failed a config, with the record of it.
func (w daemon) fail(m *machine, state, config, reason string) {
	w.report(m, map[string]string{
		v1alpha1.FailureAnnotation: v1alpha1.Failure{Config: nameOf(config), Secrets: secretsOf(config), Cause: v1alpha1.FailureApply}.String(),
		v1alpha1.StateAnnotation:   state, v1alpha1.ReasonAnnotation: reason, v1alpha1.PostConfigActionAnnotation: "",
	})
}

// words of annotations in stories.
var words = map[string]string{
	v1alpha1.CurrentSecretsAnnotation: "currentSecrets", v1alpha1.DesiredSecretsAnnotation: "desiredSecrets",
	v1alpha1.CurrentConfigAnnotation: "currentConfig", v1alpha1.DesiredConfigAnnotation: "desiredConfig",
	v1alpha1.StateAnnotation:  "state",
	v1alpha1.ReasonAnnotation: "reason", v1alpha1.DesiredDrainAnnotation: "desiredDrain",
	v1alpha1.LastAppliedDrainAnnotation: "lastAppliedDrain",
	v1alpha1.PostConfigActionAnnotation: "post-config-action", v1alpha1.FailureAnnotation: "failure",
	v1alpha1.FetchedAnnotation: "fetched",
}

// report writes what the Node does not say yet.
func (w daemon) report(m *machine, want map[string]string) {
	have := w.api.nodes[m.name].Annotations
	for config, secrets := range map[string]string{
		v1alpha1.CurrentConfigAnnotation: v1alpha1.CurrentSecretsAnnotation,
		v1alpha1.DesiredConfigAnnotation: v1alpha1.DesiredSecretsAnnotation,
	} {
		if at, ok := want[config]; ok {
			want[config], want[secrets] = splitConfig(at)
		}
	}
	var news []string
	for _, key := range reported {
		if v, ok := want[key]; ok && have[key] != v {
			news = append(news, key)
		}
	}
	if len(news) == 0 {
		return
	}
	w.api.editNode(m.name, func(n *corev1.Node) {
		for _, key := range news {
			n.Annotations[key] = want[key]
		}
	})
	var said []string
	for _, key := range news {
		said = append(said, words[key]+"="+want[key])
	}
	w.tell("the daemon of %s reports %s", m.name, strings.Join(said, ", "))
}

// manyTries is after how many failures in a row another one would show nothing new.
const manyTries = 4

// reported are the annotations of a daemon, in the order in which a story has them.
var reported = []string{
	v1alpha1.CurrentConfigAnnotation, v1alpha1.CurrentSecretsAnnotation, v1alpha1.DesiredConfigAnnotation,
	v1alpha1.DesiredSecretsAnnotation,
	v1alpha1.StateAnnotation, v1alpha1.DesiredDrainAnnotation,
	v1alpha1.PostConfigActionAnnotation, v1alpha1.FailureAnnotation, v1alpha1.ReasonAnnotation,
	v1alpha1.FetchedAnnotation,
}
