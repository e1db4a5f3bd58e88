package histories_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/secrets"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// keptSecrets are the Secrets of a cluster, what its server resolves, and what the controller has seen of it. It is nil
// in a history without secrets.
type keptSecrets struct {
	values   map[string]int
	contents map[string]secrets.Config
	state    secrets.State
	// publishedNow is in the ConfigMap, and seen is what the controller's watch has shown. deleted: a user deleted the
	// ConfigMap.
	publishedNow, seen map[string]v1alpha1.SecretsRevision
	deleted            bool
	// ever are all configs with revisions that a server had for a node.
	ever map[string]bool
	// quiet: nothing changes any more, so a node that has its config is assigned nothing.
	quiet bool
}

func newKeptSecrets() *keptSecrets {
	return &keptSecrets{
		values: map[string]int{"shared": 0, "zero": 0, "one": 0, "two": 0}, ever: map[string]bool{},
		contents: map[string]secrets.Config{},
	}
}

// needs are the secrets to which a config refers, by its number.
func needs(config string) []string {
	var number int
	if _, err := fmt.Sscanf(strings.TrimPrefix(config, "rendered-worker-"), "%x", &number); err != nil ||
		number < 1000 {
		return []string{"shared"}[:1-number%2] // a base
	}
	return [][]string{{"zero"}, {"one", "shared"}, nil, {"shared"}, {"two"}, {"zero", "two"}}[number%6]
}

// content is a rendered config with its references.
func content(name string, nodes v1alpha1.NodeConfigs) secrets.Config {
	text := `{"ignition":{"version":"3.5.0"},"storage":{"files":[`
	base := name
	if !nodes.IsZero() {
		base = nodes.Base
	}
	for i, need := range needs(base) {
		source, _ := json.Marshal(machineconfig.TemplateURL("of " + base + " ${secret:" + need + "/x}"))
		text += strings.Repeat(",", min(i, 1)) + fmt.Sprintf(`{"path":"/etc/%s","contents":{"source":%s}}`, need,
			source)
	}
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Annotations: map[string]string{v1alpha1.NodeConfigsAnnotation: nodes.String()},
	}}
	mc.Spec.Config = runtime.RawExtension{Raw: []byte(text + `]}}`)}
	c, _ := secrets.Read(mc)
	return c
}

// serve lets a server read the configs of the pool and the Secrets, and publish the revisions.
func (k *keptSecrets) serve(w *rowed) {
	if k == nil {
		return
	}
	var configs []secrets.Config
	for _, name := range slices.Compact(slices.Sorted(slices.Values(mcs.ConfigsOf(w.pool)))) {
		of := w.configs[name]
		c := content(name, of)
		if c.Own = map[string]secrets.Config{}; !of.IsZero() {
			for _, own := range of.All() {
				if own == of.Base {
					continue
				}
				if _, known := k.contents[own]; !known {
					k.contents[own] = content(own, v1alpha1.NodeConfigs{})
				}
				c.Own[own] = k.contents[own]
			}
		}
		if !of.IsZero() || len(c.Files) > 0 {
			configs = append(configs, c)
		}
	}
	objects := secrets.Objects{}
	for name, value := range k.values {
		objects[secrets.ID(machineconfig.Secret, name)] = secrets.Object{
			Pools: "worker",
			Data:  map[string][]byte{"x": fmt.Append(nil, value)},
		}
	}
	record, err := v1alpha1.ParseRolloutRecord(w.pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		w.t.Fatal(err)
	}
	recorded := map[string]bool{record.Secrets: true, record.HealthySecrets: true, record.BackSecrets: true}
	k.state = secrets.WithEarlier(secrets.Next(k.state, configs,
		secrets.Source{Objects: objects, Key: make([]byte, secrets.KeySize), Published: k.publishedNow}),
		k.publishedNow, recorded)
	k.publishedNow, k.deleted = map[string]v1alpha1.SecretsRevision{}, false
	for name, entry := range k.state {
		k.publishedNow[name] = entry.Published
		for _, n := range w.nodes {
			own := name
			if of := w.configs[name]; !of.IsZero() {
				own = of.Of(n.Name)
			}
			k.ever[v1alpha1.NewConfigVersion(own, k.revision(w, n.Name, own)).String()] = true
		}
	}
}

// revision is that of the secrets of a node's own config, which the server has; empty without secrets.
func (k *keptSecrets) revision(_ *rowed, node, own string) string {
	if k == nil {
		return ""
	}
	is, _, _ := k.state.ForNode(node, own)
	return is.Revision
}

// published is what the controller's watch has shown.
func (k *keptSecrets) published(w *rowed) poolstate.Published {
	if k == nil {
		return poolstate.Published{}
	}
	if w.IntN(3) > 0 || k.quiet {
		k.serve(w)
		k.seen = k.publishedNow
	}
	return poolstate.Published{Revisions: k.seen, Refers: func(config string) bool {
		return w.configs[config].Secrets || len(needs(config)) > 0
	}}
}

// isCurrent reports whether the controller knows the present revisions.
func (k *keptSecrets) isCurrent() bool {
	if k == nil {
		return true
	}
	if len(k.seen) != len(k.publishedNow) {
		return false
	}
	for name, is := range k.publishedNow {
		if k.seen[name].Revision != is.Revision {
			return false
		}
	}
	return true
}

// change changes a Secret, restarts the server, or deletes the ConfigMap.
func (k *keptSecrets) change(w *rowed) {
	if k == nil {
		return
	}
	switch w.IntN(10) {
	case 0:
		k.state = nil
		k.serve(w)
	case 1:
		k.publishedNow, k.seen = nil, nil
	default:
		k.values[[]string{"shared", "zero", "one", "two"}[w.IntN(4)]] = w.IntN(4)
		if w.IntN(2) == 0 {
			k.serve(w)
		}
	}
}

// settle ends the changes.
func (k *keptSecrets) settle(w *rowed) {
	if k != nil {
		k.serve(w)
		k.quiet = true
	}
}

// canGet reports whether a node has the secrets of its desired config, or gets them from the server.
func (k *keptSecrets) canGet(w *rowed, n *corev1.Node) bool {
	if k == nil || desired(n) == current(n) {
		return true
	}
	of := v1alpha1.ParseConfigVersion(desired(n))
	return of.Secrets == k.revision(w, n.Name, of.Config) || n.Annotations["before"] == desired(n)
}

// touchesOnlyItsNodes changes each secret of a pool that has settled. It returns how many nodes were assigned a
// revision.
func (k *keptSecrets) touchesOnlyItsNodes(w *rowed) (moved int) {
	for name := range k.values {
		k.values[name] += 10
		want := map[string]bool{}
		for _, n := range w.nodes {
			want[n.Name] = slices.Contains(needs(n.Annotations[v1alpha1.CurrentConfigAnnotation]), name)
		}
		was := map[string]string{}
		for _, n := range w.nodes {
			was[n.Name] = desired(n)
		}
		k.serve(w)
		for range 800 {
			if w.now = w.now.Add(10 * time.Second); w.done() {
				break
			}
			w.decide()
			w.daemon(false)
		}
		for _, n := range w.nodes {
			if has := desired(n) != was[n.Name]; has != want[n.Name] || !w.done() {
				w.t.Fatalf("%s changed: node %s has %s after %s, done %t", name, n.Name, desired(n), was[n.Name],
					w.done())
			} else if has {
				moved++
			}
		}
	}
	return moved
}

func current(n *corev1.Node) string {
	return v1alpha1.NewConfigVersion(n.Annotations[v1alpha1.CurrentConfigAnnotation],
		n.Annotations[v1alpha1.CurrentSecretsAnnotation]).String()
}

func desired(n *corev1.Node) string {
	return v1alpha1.NewConfigVersion(n.Annotations[v1alpha1.DesiredConfigAnnotation],
		n.Annotations[v1alpha1.DesiredSecretsAnnotation]).String()
}

// setAt writes a config with the revision of its secrets to two annotations. A node keeps the secrets of the config
// before.
func setAt(n *corev1.Node, config, revision, at string) {
	if config == v1alpha1.CurrentConfigAnnotation {
		n.Annotations["before"] = current(n)
	}
	of := v1alpha1.ParseConfigVersion(at)
	n.Annotations[config], n.Annotations[revision] = of.Config, of.Secrets
}
