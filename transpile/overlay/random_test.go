package overlay

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing/fstest"
)

// random writes repositories that use all that a kustomization may.
type random struct {
	*rand.Rand
	repo  fstest.MapFS
	count int
}

func (r *random) put(name, text string) { r.repo[name] = &fstest.MapFile{Data: []byte(text)} }

func (r *random) of(words ...string) string { return words[r.IntN(len(words))] }

func (r *random) chance(percent int) bool { return r.IntN(100) < percent }

// some gives each of the words, maybe.
func (r *random) some(words ...string) []string {
	var out []string
	for _, w := range words {
		if r.chance(45) {
			out = append(out, w)
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// doc is a document as the layers above it know it.
type doc struct {
	name string // as it is now
	once string // as its file has it
	raw  bool
}

// layer writes a directory and returns the documents that come out of it.
func (r *random) layer(dir string, depth int) []doc {
	var docs []doc
	var resources, lines []string
	for range 1 + r.IntN(3) {
		d := r.document(dir)
		docs = append(docs, d)
		resources = append(resources, path.Base(d.file(dir)))
	}
	if depth > 0 {
		for range r.IntN(3) {
			r.count++
			sub := fmt.Sprintf("base%d", r.count)
			docs = append(docs, r.layer(sub, depth-1)...)
			resources = append(resources, "../"+sub)
		}
	}
	r.Shuffle(len(resources), func(i, j int) { resources[i], resources[j] = resources[j], resources[i] })
	lines = append(lines, "resources: ["+strings.Join(resources, ", ")+"]")
	if depth > 0 && r.chance(40) {
		r.count++
		component := fmt.Sprintf("component%d", r.count)
		more := []doc{r.document(component)}
		file := path.Base(more[0].file(component))
		docs = append(docs, more...)
		text := "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [" + file + "]\n"
		text += strings.Join(r.changes(component, docs, &docs), "\n") + "\n"
		r.put(component+"/kustomization.yaml", text)
		lines = append(lines, "components: [../"+component+"]")
	}
	lines = append(lines, r.changes(dir, docs, &docs)...)
	r.put(dir+"/kustomization.yaml", strings.Join(lines, "\n")+"\n")
	return docs
}

func (d doc) file(dir string) string {
	if d.raw {
		return dir + "/" + d.once + ".yaml"
	}
	return dir + "/" + d.once + ".bu"
}

// changes writes what a kustomization does to documents, and how they are called then.
func (r *random) changes(dir string, docs []doc, after *[]doc) []string {
	var lines, patches []string
	for i := range r.IntN(4) {
		patches = append(patches, r.patch(dir, i, docs[r.IntN(len(docs))]))
	}
	if len(patches) > 0 {
		lines = append(lines, "patches:\n"+strings.Join(patches, "\n"))
	}
	renamed := append([]doc{}, docs...)
	if r.chance(25) {
		lines = append(lines, "namePrefix: p-")
		for i := range renamed {
			renamed[i].name = "p-" + renamed[i].name
		}
	}
	if r.chance(15) {
		lines = append(lines, "nameSuffix: -s")
		for i := range renamed {
			renamed[i].name += "-s"
		}
	}
	if r.chance(25) {
		lines = append(lines, r.of("labels: [{pairs: {tier: edge}}]", "commonLabels: {tier: core}",
			"labels: [{pairs: {machineconfiguration.openshift.io/role: infra, tier: edge}, includeSelectors: true}]"))
	}
	if r.chance(15) {
		lines = append(lines, "commonAnnotations: {owner: us}")
	}
	if r.chance(30) {
		lines = append(lines, r.replacement(renamed))
	}
	*after = renamed
	return lines
}

func (r *random) document(dir string) doc {
	r.count++
	d := doc{once: fmt.Sprintf("%02d-%s", r.count, r.of("a", "b")), raw: r.chance(20)}
	d.name = d.once
	if d.raw {
		r.put(d.file(dir), "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: "+
			d.once+
			"\n  labels: {machineconfiguration.openshift.io/role: worker}\nspec:\n"+indent(r.ignition(false), 2))
		return d
	}
	r.put(d.file(dir), "variant: fcos\nversion: 1.6.0\nmarker: "+r.of("here", "there")+"\n"+r.butane(false))
	return d
}

func indent(text string, by int) string {
	var out strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		if line != "" {
			out.WriteString(strings.Repeat(" ", by) + line)
		}
	}
	return out.String()
}

// item is one of a keyed list, maybe with a directive.
func (r *random) item(key, name string, patch bool, fields ...string) string {
	out := "- " + key + ": " + name + "\n"
	if patch && r.chance(15) {
		return out + "  $patch: delete\n"
	}
	for _, f := range r.some(fields...) {
		out += indent(f, 2)
	}
	if patch && r.chance(10) {
		out += "  $patch: " + r.of("merge", "replace") + "\n"
	}
	return out
}

func (r *random) list(key string, items []string, patch bool) string {
	if len(items) == 0 {
		return ""
	}
	if patch && r.chance(12) {
		items = append([]string{"- $patch: replace\n"}, items...)
	}
	return key + ":\n" + indent(strings.Join(items, ""), 2)
}

// null is what a patch removes a field with.
func (r *random) null(patch bool, otherwise string) string {
	if patch && r.chance(20) {
		key, _, _ := strings.Cut(otherwise, ":")
		return key + ": null\n"
	}
	return otherwise
}

func (r *random) butane(patch bool) string {
	var files, units, users []string
	for _, p := range r.some("/etc/a", "/etc/b", "/etc/c", "/etc/d") {
		text := r.of("x", "1.10", "0644", "\"yes\"", "2020-01-01", "|\n    two\n    lines")
		files = append(files, r.item("path", p, patch, r.null(patch, "mode: "+r.of("0600", "420")+"\n"),
			r.null(patch, "overwrite: true\n"), "contents:\n  inline: "+text+"\n"))
	}
	for _, u := range r.some("a.service", "b.service", "c.timer") {
		var dropins []string
		for _, d := range r.some("10-x.conf", "20-y.conf") {
			dropins = append(dropins, r.item("name", d, patch, "contents: "+r.of("x", "y")+"\n"))
		}
		units = append(units, r.item("name", u, patch, "enabled: "+r.of("true", "false")+"\n",
			r.list("dropins", dropins, patch)))
	}
	for _, u := range r.some("core", "admin") {
		users = append(users, r.item("name", u, patch, "ssh_authorized_keys: ["+strings.Join(r.some("k1", "k2", "k3"),
			", ")+"]\n", r.null(patch, "uid: 1000\n")))
	}
	out := ""
	if s := r.list("files", files, patch); s != "" {
		out += "storage:\n" + indent(s, 2)
	}
	if s := r.list("units", units, patch); s != "" {
		out += "systemd:\n" + indent(s, 2)
	}
	if s := r.list("users", users, patch); s != "" && r.chance(50) {
		out += "passwd:\n" + indent(s, 2)
	}
	if args := r.some("quiet", "nosmt", "a=1", `"0"`); len(args) > 0 {
		out += "kernel_arguments:\n  should_exist: [" + strings.Join(args, ", ") + "]\n"
	}
	if out == "" {
		return "systemd: {}\n"
	}
	return out
}

func (r *random) ignition(patch bool) string {
	var files []string
	for _, p := range r.some("/etc/a", "/etc/b", "/etc/c") {
		files = append(files, r.item("path", p, patch, r.null(patch, "mode: 420\n"),
			"contents: {source: \"data:,x\"}\n"))
	}
	out := "kernelArguments: [" + strings.Join(r.some("quiet", "nosmt"), ", ") +
		"]\nconfig:\n  ignition: {version: 3.2.0}\n"
	if s := r.list("files", files, patch); s != "" {
		out += "  storage:\n" + indent(s, 4)
	}
	return out
}

// patch writes one patch for a document.
func (r *random) patch(dir string, i int, d doc) string {
	if d.raw {
		patch := "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: " +
			r.of(d.name, d.once) + "\nspec:\n" + indent(r.ignition(true), 2)
		return "  - patch: |-\n" + indent(patch, 6)
	}
	switch r.IntN(6) {
	case 0:
		name := fmt.Sprintf("patch%d/%s.bu", i, r.of(d.name, d.once))
		r.put(dir+"/"+name, r.butane(true))
		return "  - path: " + name
	case 1:
		return "  - target: {name: " + d.name + "}\n    patch: |-\n" + indent(r.operations(), 6)
	case 2:
		return "  - target: {kind: Butane, labelSelector: \"" + r.of("tier=edge", "tier", "!tier", "tier!=core") +
			"\"}\n    patch: |-\n" + indent(r.butane(true), 6)
	case 3:
		return "  - target: {name: \"" + r.of(".*-a", ".*", d.once, "(p-)*"+d.once+".*") + "\"}\n    patch: |-\n" +
			indent(r.butane(true), 6)
	case 4:
		if r.chance(30) {
			return "  - target: {name: " + d.name + "}\n    patch: |-\n      $patch: delete\n"
		}
	}
	return "  - target: {name: " + d.name + "}\n    patch: |-\n" + indent(r.butane(true), 6)
}

// operations write a JSON patch that any document can take, or one that few can.
func (r *random) operations() string {
	out := ""
	for range 1 + r.IntN(3) {
		out += r.of(
			"- {op: replace, path: /marker, value: patched}\n",
			"- {op: add, path: /extra, value: {a: [1, two, 0644], b: {c: 1.10}}}\n",
			"- {op: copy, from: /marker, path: /copied}\n",
			"- {op: test, path: /variant, value: fcos}\n",
			"- op: add\n  path: /systemd\n  value:\n    units:\n      - {name: j.service, enabled: true}\n",
			"- {op: add, path: /more, value: [a, b]}\n- {op: add, path: /more/1, value: {x: y}}\n"+
				"- {op: remove, path: /more/0}\n- {op: move, from: /more/0, path: /moved}\n",
		)
	}
	if r.chance(20) {
		out += r.of("- {op: remove, path: /storage/files/0}\n", "- {op: add, path: /storage/files/-, value: {path: "+
			"/etc/j}}\n", "- {op: replace, path: /passwd/users/0/name, value: x}\n")
	}
	return out
}

func (r *random) replacement(docs []doc) string {
	from, to := docs[r.IntN(len(docs))], docs[r.IntN(len(docs))]
	source, field := "{name: "+r.of(from.name, from.once)+", fieldPath: marker}", "marker"
	if from.raw {
		source = "{kind: MachineConfig, name: " + from.name + ", fieldPath: spec.config.ignition.version}"
	}
	target := "{name: " + to.name + "}"
	if to.raw {
		target, field = "{kind: MachineConfig, name: "+to.name+"}", "spec.config.ignition.version"
	} else if r.chance(40) {
		target = "{name: \"" + r.of(".*", ".*-b.*") + "\"}"
	}
	options := ""
	if r.chance(30) && from.name != to.name {
		options, field = "\n        options: {create: true}", r.of("made", "deep.made", field)
	}
	out := "replacements:\n  - source: " + source
	if r.chance(20) {
		out = "replacements:\n  - sourceValue: given"
	}
	return out + "\n    targets:\n      - select: " + target + "\n        fieldPaths: [" + field + "]" + options
}
