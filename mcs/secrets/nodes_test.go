package secrets

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const target, base = "rendered-worker-t", "rendered-worker-0"

// ofNodes is the config of a pool whose nodes have configs of their own. Each node has a config of its own with these
// files, and the base has the files of the node "".
func ofNodes(t *testing.T, files map[string][]string) Config {
	t.Helper()
	c := Config{Name: target, Nodes: v1alpha1.NodeConfigs{Base: base, Secrets: true}, Own: map[string]Config{}}
	for node, of := range files {
		if node == "" {
			c.Files = rendered(t, base, of...).Files
			continue
		}
		name := "rendered-worker-" + strings.ReplaceAll(node, "-", "")
		c.Nodes.Set(node, name)
		c.Own[name] = Config{Name: name}
		if len(of) > 0 {
			c.Own[name] = rendered(t, name, of...)
		}
	}
	return c
}

func valuesOf(of map[string]string) Objects {
	out := Objects{}
	for name, value := range of {
		out[ID(machineconfig.Secret, name)] = Object{Pools: "worker", Data: map[string][]byte{"x": []byte(value)}}
	}
	return out
}

func to(name string) string { return machineconfig.TemplateURL("${secret:" + name + "/x}") }

// revisionsOf returns the revisions of the nodes a to d and of the base, in a state.
func revisionsOf(c Config, own v1alpha1.OwnSecrets) map[string]string {
	out, by := map[string]string{}, own.ByConfig(c.Nodes)
	for _, node := range []string{"a", "b", "c", "d", "none"} {
		out[node] = by[c.Nodes.Of(node)]
	}
	return out
}

// TestASecretIsForTheNodesWhoseConfigRefersToIt: a node gets the values of its own config, and asks in vain for those
// of others.
func TestASecretIsForTheNodesWhoseConfigRefersToIt(t *testing.T) {
	c := ofNodes(t, map[string][]string{
		"": {"/etc/base", to("base")}, "a": {
			"/etc/a", to("one"), "/etc/s",
			machineconfig.SOPSURL("binary", []byte(hush+"-s")),
		}, "b": {"/etc/b", to("one")}, "c": {"/etc/c", to("two")},
		"d": nil,
	})
	state := Next(nil, []Config{c},
		Source{
			Objects: valuesOf(map[string]string{"base": hush + "-0", "one": hush + "-1", "two": hush + "-2"}),
			Decrypt: decrypt, Key: key,
		})
	own := map[string]string{
		"a": "[/etc/a=" + hush + "-1 /etc/s=" + hush + "-s]", "b": "[/etc/b=" + hush + "-1]",
		"c": "[/etc/c=" + hush + "-2]", "none": "[/etc/base=" + hush + "-0]",
	}
	revisions := revisionsOf(c, *state[target].Published.Own)
	for _, node := range []string{"a", "b", "c", "d", "none", ""} {
		for _, config := range []string{
			"rendered-worker-a", "rendered-worker-b", "rendered-worker-c",
			"rendered-worker-d", base, target, "rendered-worker-x",
		} {
			is, found, allowed := state.ForNode(node, config)
			if mine := c.Nodes.Of(node) == config && config != "rendered-worker-d"; allowed != mine || !allowed &&
				(is.Files != nil || is.Revision != "") {
				t.Errorf("node %q asks for %s: found %t, allowed %t, %v", node, config, found, allowed, is)
			}
			if who := map[bool]string{true: "none", false: node}[node == ""]; allowed &&
				(contentsOf(is) != own[who] || is.Revision != revisions[who] || is.Revision == "") {
				t.Errorf("node %q gets %s at %q, want %s at %q", node, contentsOf(is), is.Revision, own[who],
					revisions[who])
			}
		}
	}
	for config, want := range map[string]string{
		target: own["none"], "rendered-worker-a": own["a"],
		"rendered-worker-d": "[]", "rendered-worker-x": "[]",
	} {
		if is, ok := state.ForMachine(config); contentsOf(is) != want || ok != (want != "[]") {
			t.Errorf("a machine boots %s with %s, %t", config, contentsOf(is), ok)
		}
	}
	if text, _ := json.Marshal(state[target].Published); strings.Contains(string(text), hush) {
		t.Errorf("published: %s", text)
	}
}

func contentsOf(r Resolved) string {
	var out []string
	for _, f := range r.Files {
		out = append(out, f.Path+"="+string(f.Contents))
	}
	return fmt.Sprint(out)
}

// TestANodeWithoutItsSecretHoldsThePool: the problem names the node, and a value that was there stays.
func TestANodeWithoutItsSecretHoldsThePool(t *testing.T) {
	c := ofNodes(t, map[string][]string{
		"a": {"/etc/a", to("one")}, "b": {"/etc/b", to("one")},
		"c": {"/etc/c", to("two")}, "d": {"/etc/d", machineconfig.SOPSURL("yaml", []byte("damaged"))},
	})
	from := Source{Objects: valuesOf(map[string]string{"one": hush}), Decrypt: decrypt, Key: key}
	published := Next(nil, []Config{c}, from)[target].Published
	if published.Revision != "" || len(published.Problems) != 2 || published.Problems[0].Node != "c" ||
		published.Problems[1].Node != "d" {
		t.Errorf("without two: %+v", published)
	}
	c = ofNodes(t, map[string][]string{
		"": {"/etc/0", to("two")}, "a": {"/etc/a", to("one")},
		"b": {"/etc/b", to("one")}, "c": {"/etc/c", to("two")},
	})
	from.Objects = valuesOf(map[string]string{"one": hush, "two": hush})
	good := Next(nil, []Config{c}, from)
	from.Published = map[string]v1alpha1.SecretsRevision{target: good[target].Published}
	for because, objects := range map[string]Objects{
		"gone": valuesOf(map[string]string{"one": hush}),
		"for no pool": {
			ID(machineconfig.Secret, "one"): from.Objects[ID(machineconfig.Secret, "one")],
			ID(machineconfig.Secret, "two"): {Data: map[string][]byte{"x": []byte(hush)}},
		},
	} {
		from.Objects = objects
		for server, have := range map[string]State{"running": good, "restarted": nil} {
			now := Next(have, []Config{c}, from)
			is, _, _ := now.ForNode("c", "rendered-worker-c")
			root, _, _ := now.ForNode("none", base)
			if serves := because == "gone" &&
				server == "running"; now[target].Published.Revision != good[target].Published.Revision ||
				(is.Files != nil) != serves || (root.Files != nil) != serves ||
				len(now[target].Published.Problems) != 2 {
				t.Errorf("two is %s, %s server: %+v serves %v and %v", because, server, now[target].Published, is, root)
			}
		}
	}
}

// TestEarlierRevisionsOfNodes plays random values, and checks of each revision that is still published what each node
// had at it.
func TestEarlierRevisionsOfNodes(t *testing.T) {
	c := ofNodes(t, map[string][]string{
		"": {"/etc/0", to("shared")}, "a": {"/etc/0", to("shared")},
		"b": {"/etc/b", to("shared"), "/etc/2", to("two")}, "c": {"/etc/c", to("three")}, "d": nil,
	})
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		values := map[string]string{"shared": "0", "two": "0", "three": "0"}
		published, had := map[string]v1alpha1.SecretsRevision{}, map[string]map[string]string{}
		var state State
		recorded := ""
		for range 40 {
			before := maps.Clone(values)
			values[[]string{"shared", "two", "three"}[r.IntN(3)]] = fmt.Sprint(r.IntN(9))
			if r.IntN(4) == 0 { // a restarted server
				state = nil
			}
			state = WithEarlier(Next(state, []Config{c}, Source{
				Objects: valuesOf(values), Decrypt: decrypt, Key: key,
				Published: published,
			}), published, map[string]bool{recorded: true})
			was, is := published[target], state[target].Published
			now := revisionsOf(c, *is.Own)
			if was.Own != nil {
				for node, needs := range map[string][]string{
					"a": {"shared"}, "b": {"shared", "two"}, "c": {"three"},
					"none": {"shared"}, "d": nil,
				} {
					changed := slices.ContainsFunc(needs, func(name string) bool {
						return before[name] != values[name]
					})
					if moved := now[node] != revisionsOf(c, *was.Own)[node]; moved != changed {
						t.Fatalf("seed %d: %v became %v, and node %s has %s: moved %t", seed, before, values, node,
							now[node], moved)
					}
				}
			}
			had[is.Revision], published[target] = now, is
			if recorded == "" || r.IntN(15) == 0 {
				recorded = is.Revision
			}
			for _, at := range append(slices.Collect(maps.Keys(had)), recorded) {
				earlier, known := is.Own.At(at)
				if at == is.Revision {
					earlier, known = *is.Own, true
				}
				if known && !maps.Equal(revisionsOf(c, earlier), had[at]) || !known && at == recorded {
					t.Fatalf("seed %d: at %s the nodes had %v, and not %v (known %t)", seed, at, had[at],
						revisionsOf(c, earlier), known)
				}
			}
			if len(is.Own.Earlier) > v1alpha1.MaxEarlierSecrets+1 {
				t.Fatalf("%d earlier revisions", len(is.Own.Earlier))
			}
		}
	}
}

// TestThePublishedRevisionsOfManyNodesFit: 3,000 nodes with secrets of their own, all of which change at once, and
// 3,000 nodes with one secret.
func TestThePublishedRevisionsOfManyNodesFit(t *testing.T) {
	for says, c := range map[string]struct {
		secretOf func(int) string
		most     int
	}{
		"a secret for each node": {func(i int) string { return fmt.Sprint("s", i) }, 400 << 10},
		"one secret":             {func(int) string { return "s" }, 1 << 10},
	} {
		config := Config{
			Name:  "rendered-worker-" + strings.Repeat("t", 32),
			Nodes: v1alpha1.NodeConfigs{Base: "rendered-worker-" + strings.Repeat("b", 32), Secrets: true},
			Own:   map[string]Config{},
		}
		old, now := map[string]string{}, map[string]string{}
		for i := range 3000 {
			name := fmt.Sprintf("rendered-worker-%032x", i)
			config.Nodes.Set(fmt.Sprint("node-", i), name)
			config.Own[name] = rendered(t, name, "/etc/a", to(c.secretOf(i)))
			old[c.secretOf(i)], now[c.secretOf(i)] = "old", "new"
		}
		from := Source{Objects: valuesOf(old), Decrypt: decrypt, Key: key}
		published := map[string]v1alpha1.SecretsRevision{config.Name: Next(nil, []Config{config},
			from)[config.Name].Published}
		from.Objects, from.Published = valuesOf(now), published
		text, err := json.Marshal(WithEarlier(Next(nil, []Config{config}, from), published, nil)[config.Name].Published)
		if t.Logf("%s: %d bytes", says, len(text)); err != nil || len(text) > c.most {
			t.Errorf("%s: %d bytes, %v", says, len(text), err)
		}
	}
}
