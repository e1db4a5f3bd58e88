package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/pinnedimage"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	operatorv1 "github.com/openshift/api/operator/v1"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	transpilekinds "github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

var yamlLine = regexp.MustCompile(`line (\d+): `)

// reader reads the objects of one file.
type reader struct {
	*origin.Findings
	file    string
	objects []Object
}

// at returns a node's position.
func (r *reader) at(n *yaml.Node) origin.Pos { return position(r.file, n) }

// object reads one object. If the object is valid, the method adds it to the reader's objects.
func (r *reader) object(root *yaml.Node) {
	at := r.at(root)
	if alias := findAlias(root); alias != nil {
		r.Errorf(r.at(alias), "alias", "YAML alias: aliases are not followed; write the value out")
		return
	}
	if root.Kind != yaml.MappingNode {
		r.Errorf(at, "yaml", "not an object: an object is a mapping that begins with apiVersion and kind")
		return
	}
	var fields map[string]any
	if err := root.Decode(&fields); err != nil {
		r.undecodable(root, err)
		return
	}
	for _, name := range []string{"apiVersion", "kind"} {
		// The decoder's error would quote the whole object, so object checks this field itself.
		if text, ok := fields[name].(string); !ok || text == "" {
			r.Errorf(at, "cluster-kind", "the object has no %s; %s", name, held)
			return
		}
	}
	u, err := normal(fields)
	if err != nil {
		r.Errorf(at, "yaml", "not an object: %v", err)
		return
	}
	newType, ok := kinds[u.GetAPIVersion()+" "+u.GetKind()]
	if !ok {
		r.Errorf(at, "cluster-kind", "%s", wrongKind(u))
		return
	}
	if r.check(root, u, newType()) {
		r.strip(root, u)
		if u.Object["spec"] == nil {
			u.Object["spec"] = map[string]any{} // The API server requires a spec, so object adds an empty one.
		}
		digest, err := transpilekinds.ObjectDigest(u.Object)
		if err != nil {
			r.Errorf(at, "yaml", "%v", err)
			return
		}
		r.objects = append(r.objects, Object{Object: u, Digest: digest, File: r.file, Line: root.Line})
	}
}

// findAlias returns the first alias of a tree, or nil.
func findAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n
	}
	for _, c := range n.Content {
		if a := findAlias(c); a != nil {
			return a
		}
	}
	return nil
}

// undecodable reports an error for each line that the YAML library names.
func (r *reader) undecodable(root *yaml.Node, err error) {
	lines := []string{err.Error()}
	if typed := (*yaml.TypeError)(nil); errors.As(err, &typed) {
		lines = typed.Errors
	}
	for _, line := range lines {
		at := r.at(root)
		if m := yamlLine.FindStringSubmatch(line); m != nil {
			at.Line, _ = strconv.Atoi(m[1])
			at.Column, line = 0, strings.Replace(line, m[0], "", 1)
		}
		r.Errorf(at, "yaml", "not an object: %s", line)
	}
}

// normal converts numbers to the types that the Kubernetes libraries expect.
func normal(object map[string]any) (*unstructured.Unstructured, error) {
	raw, err := (&unstructured.Unstructured{Object: object}).MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("writing it as JSON: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("reading it as JSON: %w", err)
	}
	return u, nil
}

// held lists the kinds that cluster/ may contain, for messages.
var held = fmt.Sprintf("%s/ holds %s and %s (%s), %s (%s), %s and %s (%s)", Dir, PoolKind, imagesKind,
	mcfgv1.GroupVersion, policyKind, operatorv1.GroupVersion, driftKind, rolloutKind, v1alpha1.GroupVersion)

// wrongKind returns a message about an object of another kind, with the kinds that cluster/ may contain.
func wrongKind(u *unstructured.Unstructured) string {
	switch u.GetKind() {
	case "MachineConfig":
		return held + ", not MachineConfigs: move them into their pool's directory"
	case "Secret":
		return held + ", not Secrets: every reader of the repository could read them"
	default:
		return fmt.Sprintf("%s, not %s %s: apply other objects with another tool", held, u.GetAPIVersion(), u.GetKind())
	}
}

// check decodes the object strictly and checks the names in it. check reports whether the object is valid.
func (r *reader) check(root *yaml.Node, u *unstructured.Unstructured, into any) bool {
	before := len(r.List)
	if u.GetKind() == PoolKind {
		if r.maxUnavailable(root); origin.Fatal(r.List[before:]) {
			return false
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, true); err != nil {
		strict, ok := runtime.AsStrictDecodingError(err)
		if !ok {
			for _, m := range transpilekinds.Mistakes(u.Object, into, err) {
				r.Errorf(fieldPosition(r.file, root, strconv.Quote(m.Field)), "field", "not a %s: %s%s", u.GetKind(),
					m.Problem, inBrackets(u, m))
			}
			return false
		}
		for _, e := range strict.Errors() {
			r.Errorf(fieldPosition(r.file, root, e.Error()), "field", "%v: a %s has none of that name; check its "+
				"spelling and indentation", e, u.GetKind())
		}
	}
	r.metadata(root, u)
	switch o := into.(type) {
	case *mcfgv1.MachineConfigPool:
		r.pool(root, o)
	case *v1alpha1.DriftPolicy:
		r.drift(root, o)
	case *mcfgv1.PinnedImageSet:
		r.images(root, o)
	case *v1alpha1.RolloutPolicy:
		r.rollout(root, o)
	case *operatorv1.MachineConfiguration:
		r.disruption(root, o)
	}
	r.schema(root, u, before)
	return !origin.Fatal(r.List[before:])
}

// disruption checks the disruption policy of the MachineConfiguration.
func (r *reader) disruption(root *yaml.Node, mc *operatorv1.MachineConfiguration) {
	at := func(path string) origin.Pos { return fieldPosition(r.file, root, strconv.Quote(path)) }
	rules := map[string]origin.Pos{}
	for i, f := range mc.Spec.NodeDisruptionPolicy.Files {
		rules[f.Path] = at(fmt.Sprintf("spec.nodeDisruptionPolicy.files[%d]", i))
		if strings.ContainsAny(f.Path, "*?[") {
			r.Warnf(rules[f.Path], "policy", "the path of a rule has no patterns, so %s covers a file of this very "+
				"name "+
				"only: write %s/ for the whole directory", f.Path, strings.TrimSuffix(path.Dir(f.Path), "/"))
		}
	}
	for i, u := range mc.Spec.NodeDisruptionPolicy.Units {
		rules[string(u.Name)] = at(fmt.Sprintf("spec.nodeDisruptionPolicy.units[%d]", i))
	}
	_, err := disruption.FromSpec(mc.Spec.NodeDisruptionPolicy)
	if err == nil {
		return
	}
	k, _ := entry(root, "spec")
	for _, line := range strings.Split(err.Error(), "\n") {
		where := r.at(cmp.Or(k, root))
		_, rule, _ := strings.Cut(line, "rule ")
		if name, _, is := strings.Cut(rule, ": "); is && rules[name].Line > 0 {
			where = rules[name]
		}
		r.Errorf(where, "policy", "%s", line)
	}
}

// schema checks an object against the schema of its CRD. The findings from the index from on are about the same object.
// If one of these findings has the same position, schema adds no second error, because the first error is more exact.
func (r *reader) schema(root *yaml.Node, u *unstructured.Unstructured, from int) {
	problems, err := CheckSchema(u.GetKind(), u.Object)
	if err != nil {
		r.Errorf(r.at(root), "schema", "%v", err)
	}
	found := map[origin.Pos]bool{}
	for _, f := range r.List[from:] {
		found[f.At] = found[f.At] || !f.Warning
	}
	for _, p := range problems {
		if at := fieldPosition(r.file, root, strconv.Quote(p.Path)); !found[at] {
			r.Errorf(at, "schema", "%s: %s", p.Path, p.Text)
		}
	}
}

// inBrackets returns how to write a single value in a field that requires a list.
func inBrackets(u *unstructured.Unstructured, m transpilekinds.Mistake) string {
	if value, ok, _ := unstructured.NestedString(u.Object, strings.Split(m.Field, ".")...); ok && m.Single {
		return "; write [" + value + "]"
	}
	return ""
}

// strip removes the fields that Bunsen does not read from the repository.
func (r *reader) strip(root *yaml.Node, u *unstructured.Unstructured) {
	_, spec := entry(root, "spec")
	for _, name := range managed {
		if spec == nil || u.GetKind() != PoolKind {
			break
		}
		if k, _ := entry(spec, name); k != nil {
			r.Warnf(r.at(k), "managed-field", "spec.%s in the repository has no effect, because the cluster sets it: "+
				"remove it", name)
			unstructured.RemoveNestedField(u.Object, "spec", name)
		}
	}
	r.stripMetadata(root, u)
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
}

// images refuses names of images in a PinnedImageSet that the API server or a container runtime would refuse.
func (r *reader) images(root *yaml.Node, s *mcfgv1.PinnedImageSet) {
	if len(s.Spec.PinnedImages) == 0 {
		r.Errorf(fieldPosition(r.file, root, `"spec.pinnedImages"`), "pinned-image",
			"spec.pinnedImages: the PinnedImageSet has no images; name 1 to 500")
	}
	for i, image := range s.Spec.PinnedImages {
		if problem := pinnedimage.Problem(string(image.Name)); problem != "" {
			field := fmt.Sprintf("spec.pinnedImages[%d].name", i)
			r.Errorf(fieldPosition(r.file, root, fmt.Sprintf("%q", field)), "pinned-image", "%s: %q: %s", field,
				image.Name, problem)
		}
	}
}

// position returns a node's position in a file.
func position(file string, n *yaml.Node) origin.Pos {
	return origin.Pos{File: file, Line: n.Line, Column: n.Column}
}

var quoted = regexp.MustCompile(`"([^"]+)"`)

// fieldPosition finds the field that a strict decoding error names: `unknown field "spec.nodeSelektor"`.
func fieldPosition(file string, root *yaml.Node, message string) origin.Pos {
	at := position(file, root)
	m := quoted.FindStringSubmatch(message)
	if m == nil {
		return at
	}
	n := root
	for _, word := range strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(m[1]), ".") {
		k, v := entry(n, word)
		if v == nil {
			return at
		}
		at, n = position(file, k), v
	}
	return at
}

// entry returns an entry of a mapping or a list: the key (or the item) and the value. The node may be nil. entry
// returns nil if there is no entry.
func entry(n *yaml.Node, word string) (k, v *yaml.Node) {
	if n == nil {
		return nil, nil
	}
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(word); err == nil && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == word {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// Position returns the position of a field of the object.
func (o Object) Position(fsys fs.FS, field string) origin.Pos {
	at := origin.Pos{File: o.File, Line: o.Line}
	src, err := fs.ReadFile(fsys, o.File)
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for err == nil {
		var doc yaml.Node
		if err = dec.Decode(&doc); err == nil && doc.Content[0].Line == o.Line {
			return fieldPosition(o.File, doc.Content[0], strconv.Quote(field))
		}
	}
	return at
}

// driftActions are the values of a rule's action.
var driftActions = []v1alpha1.DriftAction{
	v1alpha1.DriftDegrade, v1alpha1.DriftRepair, v1alpha1.DriftReport,
	v1alpha1.DriftIgnore,
}

// drift checks a DriftPolicy for values that the API server refuses, and for rules that the daemon would never use.
func (r *reader) drift(root *yaml.Node, p *v1alpha1.DriftPolicy) {
	if _, err := metav1.LabelSelectorAsSelector(p.Spec.MachineConfigPoolSelector); err != nil {
		const field = "spec.machineConfigPoolSelector"
		r.Errorf(r.valueAt(root, field), "selector", "%s: %s", field, selectorMessage(err))
	}
	if every := p.Spec.Repair.Interval.Duration; every != 0 && every < time.Second {
		const field = "spec.repair.interval"
		r.Errorf(r.valueAt(root, field), "drift", "%s: %s is less than a second; the usual is 10m", field, every)
	}
	if burst := p.Spec.Repair.Burst; burst < 0 || burst > 100 {
		const field = "spec.repair.burst"
		r.Errorf(r.valueAt(root, field), "drift", "%s: %d repairs; want 1 to 100", field, burst)
	}
	all := slices.IndexFunc(p.Spec.Rules, func(rule v1alpha1.DriftRule) bool { return rule.Path == "**" })
	for i, rule := range p.Spec.Rules {
		field := fmt.Sprintf("spec.rules.%d.path", i)
		if all >= 0 && i > all {
			r.Warnf(r.valueAt(root, field), "drift", "%s: the rule is never used, because rule %d of this policy "+
				"matches everything", field, all+1)
		} else if problem := pathProblem(rule.Path); problem != "" {
			r.Errorf(r.valueAt(root, field), "drift", "%s%s", field, problem)
		}
		if !slices.Contains(driftActions, rule.Action) {
			field := fmt.Sprintf("spec.rules.%d.action", i)
			r.Errorf(r.valueAt(root, field), "drift", "%s: %q is no action; there are Degrade, Repair, Report "+
				"and Ignore", field, rule.Action)
		}
	}
}

// pathProblem returns what is wrong with the path of a rule, or "".
func pathProblem(path string) string {
	first, _, hasSlash := strings.Cut(path, "/")
	switch {
	case path == "":
		return " is empty: name a path, a unit, user/NAME, group/NAME or os/PART, or ** for everything"
	case hasSlash && first != "" && !slices.Contains([]string{"user", "group", "os", "**", "*"}, first):
		return fmt.Sprintf(": %q is not an absolute path, and only user, group and os may be before a /: write /%s",
			path, path)
	}
	return ""
}

// valueAt returns the position of a field such as spec.rules.0.path. For a scalar, valueAt returns the position of the
// key, otherwise that of the value. For a missing field, valueAt returns the position of the nearest existing parent.
func (r *reader) valueAt(root *yaml.Node, field string) origin.Pos {
	n := root
	for word := range strings.SplitSeq(field, ".") {
		k, v := entry(n, word)
		if v == nil {
			break
		}
		n = v
		if k != v && v.Kind == yaml.ScalarNode {
			n = k
		}
	}
	return r.at(n)
}
