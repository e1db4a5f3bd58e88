package transpile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/transpile/object"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/schema"
)

const (
	poolKind    = "MachineConfigPool"
	policyKind  = "MachineConfiguration"
	driftKind   = "DriftPolicy"
	rolloutKind = "RolloutPolicy"
	// policyName is the one name that a MachineConfiguration may have.
	policyName = "cluster"
)

// clusterKinds are the kinds that cluster/ may hold, with their types.
var clusterKinds = map[string]func() any{
	mcfgv1.GroupVersion.String() + " " + poolKind:       func() any { return &mcfgv1.MachineConfigPool{} },
	operatorv1.GroupVersion.String() + " " + policyKind: func() any { return &operatorv1.MachineConfiguration{} },
	v1alpha1.GroupVersion.String() + " " + driftKind:    func() any { return &v1alpha1.DriftPolicy{} },
	v1alpha1.GroupVersion.String() + " " + rolloutKind:  func() any { return &v1alpha1.RolloutPolicy{} },
}

// managed are fields of cluster objects that others write: the renderer, and whoever pauses a pool.
var managed = []string{"configuration", "paused"}

// cluster reads the objects of cluster/.
func (r *run) cluster() {
	entries, err := fs.ReadDir(r.fs, clusterDir)
	if err != nil {
		return // a repository without cluster/ has no cluster objects
	}
	for _, e := range entries {
		if isStopped(r) {
			return
		}
		file := path.Join(clusterDir, e.Name())
		at := origin.Pos{File: file}
		switch ext := path.Ext(file); {
		case strings.HasPrefix(e.Name(), ".") || ext == ".md":
		case e.IsDir() || ext != ".yaml" && ext != ".yml":
			r.warn(at, unusedFile, "not read: %s/ is its *.yaml files", clusterDir)
		case strings.HasPrefix(e.Name(), "kustomization."):
			r.fatal(at, "cluster-kind", "%s/ is read file by file, without kustomize; remove it", clusterDir)
		default:
			clusterReader{r}.file(file)
		}
	}
	slices.SortStableFunc(r.out.Cluster, func(a, b ClusterObject) int {
		return cmp.Or(cmp.Compare(a.Object.GetKind(), b.Object.GetKind()), cmp.Compare(a.Object.GetName(), b.Object.GetName()))
	})
	for i := 1; i < len(r.out.Cluster); i++ {
		a, b := r.out.Cluster[i-1], r.out.Cluster[i]
		if a.Object.GetKind() == b.Object.GetKind() && a.Object.GetName() == b.Object.GetName() {
			r.fatal(origin.Pos{File: b.File, Line: b.Line}, "duplicate-name", "%s %s stands twice, also in %s:%d; keep one", b.Object.GetKind(), b.Object.GetName(), a.File, a.Line)
		}
	}
	rollouts(clusterReader{r})
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// clusterReader reads the objects of one file.
type clusterReader struct{ *run }

// file reads one file, which may hold several documents.
func (r clusterReader) file(file string) {
	src, err := fs.ReadFile(r.fs, file)
	if err != nil {
		r.fatal(origin.Pos{File: file}, "missing", "%v", err)
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			at := origin.Pos{File: file, Line: 1} // yaml names no line where it means the first
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
				at.Line, _ = strconv.Atoi(m[1])
			}
			r.fatal(at, "yaml", "not valid YAML: %s", yamlLine.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")+quotes(err))
			return
		}
		if root := doc.Content[0]; root.Tag != "!!null" {
			r.object(file, root)
		}
	}
}

// quotes is what to do where a value begins with what YAML takes for itself, as schedules do.
func quotes(err error) string {
	for _, text := range []string{"alphabetic or numeric", "cannot start any token", "unknown anchor"} {
		if strings.Contains(err.Error(), text) {
			return "; put a value that begins with * or @ in quotes"
		}
	}
	return ""
}

// place is a node's position in a file.
func place(file string, n *yaml.Node) origin.Pos {
	return origin.Pos{File: file, Line: n.Line, Column: n.Column}
}

func (r clusterReader) object(file string, root *yaml.Node) {
	at := place(file, root)
	if alias := findAlias(root); alias != nil {
		r.fatal(place(file, alias), "alias", "YAML alias: aliases are not followed; write the value out")
		return
	}
	if root.Kind != yaml.MappingNode {
		r.fatal(at, "yaml", "not an object: an object is a mapping that begins with apiVersion and kind")
		return
	}
	var object map[string]any
	if err := root.Decode(&object); err != nil {
		r.undecodable(file, root, err)
		return
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if text, ok := object[name].(string); !ok || text == "" { // what reads objects would print the whole of this one
			r.fatal(at, "cluster-kind", "the object has no %s; %s", name, held)
			return
		}
	}
	u, err := normal(object)
	if err != nil {
		r.fatal(at, "yaml", "not an object: %v", err)
		return
	}
	newType, ok := clusterKinds[u.GetAPIVersion()+" "+u.GetKind()]
	if !ok {
		r.fatal(at, "cluster-kind", "%s", wrongKind(u))
		return
	}
	if r.check(file, root, u, newType()) {
		r.strip(file, root, u)
		if u.Object["spec"] == nil {
			u.Object["spec"] = map[string]any{} // an annotation may be all that it says, and the API server wants one
		}
		digest, err := digestOf(u.Object)
		if err != nil {
			r.fatal(at, "yaml", "%v", err)
			return
		}
		r.out.Cluster = append(r.out.Cluster, ClusterObject{Object: u, Digest: digest, File: file, Line: root.Line})
	}
}

// undecodable says what is wrong with each line that yaml names.
func (r clusterReader) undecodable(file string, root *yaml.Node, err error) {
	lines := []string{err.Error()}
	if typed := (*yaml.TypeError)(nil); errors.As(err, &typed) {
		lines = typed.Errors
	}
	for _, line := range lines {
		at := place(file, root)
		if m := yamlLine.FindStringSubmatch(line); m != nil {
			at.Line, _ = strconv.Atoi(m[1])
			at.Column, line = 0, strings.Replace(line, m[0], "", 1)
		}
		r.fatal(at, "yaml", "not an object: %s", line)
	}
}

// normal gives numbers the types that Kubernetes' machinery expects.
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

// held is what belongs into cluster/.
var held = fmt.Sprintf("%s/ holds %s (%s), %s (%s), %s and %s (%s)", clusterDir, poolKind, mcfgv1.GroupVersion, policyKind, operatorv1.GroupVersion, driftKind, rolloutKind, v1alpha1.GroupVersion)

func wrongKind(u *unstructured.Unstructured) string {
	what := held
	switch u.GetKind() {
	case "MachineConfig":
		return what + ", not MachineConfigs: they belong into their pool's directory"
	case "Secret":
		return what + ", not Secrets: whoever reads the repository would read them"
	default:
		return fmt.Sprintf("%s, not %s %s: apply other objects with a tool for them", what, u.GetAPIVersion(), u.GetKind())
	}
}

// check decodes strictly and checks names; it tells whether the object may go on.
func (r clusterReader) check(file string, root *yaml.Node, u *unstructured.Unstructured, into any) bool {
	at := place(file, root)
	before := len(r.findings)
	if u.GetKind() == poolKind {
		if r.maxUnavailable(file, root); origin.Fatal(r.findings[before:]) {
			return false
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, true); err != nil {
		strict, ok := runtime.AsStrictDecodingError(err)
		if !ok {
			for _, m := range object.Mistakes(u.Object, into, err) {
				r.fatal(fieldPlace(file, root, strconv.Quote(m.Field)), "field", "not a %s: %s%s", u.GetKind(), m.Problem, inBrackets(u, m))
			}
			return false
		}
		for _, e := range strict.Errors() {
			r.fatal(fieldPlace(file, root, e.Error()), "field", "%v: a %s has none of that name; check its spelling and indentation", e, u.GetKind())
		}
	}
	r.metadata(file, root, u)
	if pool, ok := into.(*mcfgv1.MachineConfigPool); ok {
		r.pool(file, root, pool)
		if pool.Spec.MachineConfigSelector == nil || pool.Spec.NodeSelector == nil {
			r.fatal(at, "field", "the MachineConfigPool needs spec.machineConfigSelector and spec.nodeSelector; without them it selects nothing")
		}
	}
	if drift, ok := into.(*v1alpha1.DriftPolicy); ok {
		r.drift(file, root, drift)
	}
	if rollout, ok := into.(*v1alpha1.RolloutPolicy); ok {
		r.rollout(file, root, rollout)
	}
	if mc, ok := into.(*operatorv1.MachineConfiguration); ok {
		if _, err := policy.FromSpec(mc.Spec.NodeDisruptionPolicy); err != nil {
			k, _ := entry(root, "spec")
			for _, line := range strings.Split(err.Error(), "\n") {
				r.fatal(place(file, cmp.Or(k, root)), "policy", "%s", line)
			}
		}
	}
	r.schema(file, root, u, before)
	return !origin.Fatal(r.findings[before:])
}

// schema checks an object against the schema of its CRD. A place at which an error was found already, which the findings from a
// number on tell, gets no second one: the first is more exact.
func (r clusterReader) schema(file string, root *yaml.Node, u *unstructured.Unstructured, from int) {
	problems, err := schema.Check(u.GetKind(), u.Object)
	if err != nil {
		r.fatal(place(file, root), "schema", "%v", err)
	}
	found := map[origin.Pos]bool{}
	for _, f := range r.findings[from:] {
		found[f.At] = found[f.At] || !f.Warning
	}
	for _, p := range problems {
		if at := fieldPlace(file, root, strconv.Quote(p.Path)); !found[at] {
			r.fatal(at, "schema", "%s: %s", p.Path, p.Text)
		}
	}
}

// inBrackets is how to write a single value where a list is wanted.
func inBrackets(u *unstructured.Unstructured, m object.Mistake) string {
	if value, ok, _ := unstructured.NestedString(u.Object, strings.Split(m.Field, ".")...); ok && m.Single {
		return "; write [" + value + "]"
	}
	return ""
}

var quoted = regexp.MustCompile(`"([^"]+)"`)

// fieldPlace finds the field that a strict decoding error names: `unknown field "spec.nodeSelektor"`.
func fieldPlace(file string, root *yaml.Node, message string) origin.Pos {
	at := place(file, root)
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
		at, n = place(file, k), v
	}
	return at
}

// entry returns the key (or the item) and value below a node, which may be nil; nil where there is none.
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

// strip removes what is not the repository's to say.
func (r clusterReader) strip(file string, root *yaml.Node, u *unstructured.Unstructured) {
	_, spec := entry(root, "spec")
	for _, name := range managed {
		if spec == nil || u.GetKind() != poolKind {
			break
		}
		if k, _ := entry(spec, name); k != nil {
			r.warn(place(file, k), "managed-field", "spec.%s is not taken from the repository: it is written on the cluster; remove it here", name)
			unstructured.RemoveNestedField(u.Object, "spec", name)
		}
	}
	r.stripMetadata(file, root, u)
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
}

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
