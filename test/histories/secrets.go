package histories

import (
	"fmt"
	"maps"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// vault is what servers know of secrets.
type vault struct {
	// published are the newest revisions by config. ever are all pairs of a config and a revision that were published.
	published map[string]string
	ever      map[string]bool
	// count is how many revisions were made. edition counts the changes of the ConfigMap.
	count, edition int
	// hidden: somebody deleted the ConfigMap, and no server has written it again.
	hidden bool
}

func newVault() vault { return vault{published: map[string]string{}, ever: map[string]bool{}} }

// refers tells whether a config refers to secrets, and late whether a server takes time to resolve them.
func (s Setup) refers(number int) bool { return s.Secrets>>(number%32)&1 == 1 }
func (s Setup) late(number int) bool   { return s.Secrets>>(32+number%32)&1 == 1 }

// publish makes a new revision of a config's secrets, which is a config of its own to machines.
func (w *world) publish(c *config, needs need, ails ail, on uint64) {
	if !c.refers {
		return
	}
	v := &w.vault
	v.count++
	v.edition++
	revision := fmt.Sprintf("a%02d", v.count)
	at := *c
	at.name, at.turns = v1alpha1.NewConfigVersion(c.name, revision).String(), needs
	if ails != sound {
		at.ails, at.on = ails, on
	}
	v.published[c.name], v.ever[at.name], w.made[at.name] = revision, true, &at
	w.tell("a server publishes %s (its secrets change %s)", at.String(), needNames[needs])
}

// rotate changes the secrets of a pool's config.
func (w people) rotate(pool string, s Step) {
	if c := w.made[w.api.pools[pool].Spec.Configuration.Name]; c != nil {
		w.publish(c, need(s.B%3), ail(s.B/3%len(ailNames)), uint64(s.C))
	}
}

// hide deletes the ConfigMap of revisions, or lets a server write it again.
func (w *world) hide(hidden bool) {
	if v := &w.vault; v.hidden != hidden && v.count > 0 {
		v.hidden = hidden
		v.edition++
		w.tell("the ConfigMap of secrets is %s", map[bool]string{true: "deleted", false: "there again"}[hidden])
	}
}

// hearSecrets lets the watch show what servers published.
func (p *process) hearSecrets(w *world) {
	if p.heardSecrets == w.vault.edition {
		return
	}
	p.heardSecrets = w.vault.edition
	p.secrets = poolstate.Published{Refers: func(config string) bool {
		c := w.made[config]
		return c != nil && c.refers
	}}
	if !w.vault.hidden {
		p.secrets.Revisions = map[string]v1alpha1.SecretsRevision{}
		for config, revision := range maps.All(w.vault.published) {
			p.secrets.Revisions[config] = v1alpha1.SecretsRevision{Revision: revision}
		}
	}
	p.news()
}

// targetOf is what a pool should run: its config, with the newest revision of its secrets.
func (w *world) targetOf(config string) string {
	return v1alpha1.NewConfigVersion(config, w.vault.published[config]).String()
}

// canGet tells whether a machine has the secrets of a config on its disk, or gets them from a server.
func (w *world) canGet(m *machine, at string) bool {
	config, revision := splitConfig(at)
	return revision == "" || w.vault.published[config] == revision || at == m.inForce || at == m.before ||
		at == m.fetched
}

// setConfig writes a config with the revision of its secrets to two annotations.
func setConfig(n *corev1.Node, configKey, secretsKey, at string) {
	config, secrets := splitConfig(at)
	n.Annotations[configKey] = config
	if n.Annotations[secretsKey] = secrets; secrets == "" {
		delete(n.Annotations, secretsKey)
	}
}

// assign is what the controller writes to a node.
func assign(n *corev1.Node, at string) {
	setConfig(n, v1alpha1.DesiredConfigAnnotation, v1alpha1.DesiredSecretsAnnotation, at)
}

// desiredOf is what a node was told.
func desiredOf(n *corev1.Node) string {
	return v1alpha1.NewConfigVersion(n.Annotations[v1alpha1.DesiredConfigAnnotation],
		n.Annotations[v1alpha1.DesiredSecretsAnnotation]).String()
}

// currentOf is what a node says that it runs.
func currentOf(n *corev1.Node) string {
	return v1alpha1.NewConfigVersion(n.Annotations[v1alpha1.CurrentConfigAnnotation],
		n.Annotations[v1alpha1.CurrentSecretsAnnotation]).String()
}

func secretsOf(at string) string {
	_, secrets := splitConfig(at)
	return secrets
}

// tellsSecrets checks that a node is told only secrets that a server published for its config.
func (w watcher) tellsSecrets(node, at string) {
	config, revision := splitConfig(at)
	c := w.made[config]
	switch {
	case c != nil && c.refers && revision == "":
		w.breaks(KnownSecrets, "%s is told %s, which refers to secrets, without a revision", node, config)
	case revision != "" && !w.vault.ever[at]:
		w.breaks(KnownSecrets, "%s is told %s, and no server published that revision for %s", node, at, config)
	}
}

// withSecrets gives a third of the histories secrets, and steps that change them. The other histories stay as they are.
func withSecrets(h History) History {
	g := generator{rand.New(rand.NewPCG(h.Seed, 0x73656372657473))}
	if !g.one(3) {
		return h
	}
	h.Setup.Secrets = uint64(g.Uint32()|g.Uint32()) | uint64(g.Uint32()&g.Uint32()&g.Uint32())<<32
	var steps []Step
	for _, s := range h.Steps {
		if steps = append(steps, s); !g.one(25) {
			continue
		}
		next := Step{Verb: Rotate, A: g.IntN(len(h.Setup.Pools)), B: g.IntN(3), C: 1<<maxMachines - 1}
		switch {
		case g.one(8):
			next = Step{Verb: Hide, B: g.IntN(2)}
		case g.one(3):
			next.B += 3 * (1 + g.IntN(len(ailNames)-1))
			if g.one(2) {
				next.C = g.IntN(1 << maxMachines)
			}
		}
		steps = append(steps, next)
	}
	h.Steps = steps
	return h
}

func splitConfig(at string) (config, secrets string) {
	v := v1alpha1.ParseConfigVersion(at)
	return v.Config, v.Secrets
}

func nameOf(at string) string { return v1alpha1.ParseConfigVersion(at).Config }
