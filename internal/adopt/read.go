package adopt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"go.yaml.in/yaml/v3"
)

const (
	machineConfigKind = "MachineConfig"
	poolKind          = "MachineConfigPool"
	policyKind        = "MachineConfiguration"
	driftKind         = "DriftPolicy"
	rolloutKind       = "RolloutPolicy"
	imagesKind        = "PinnedImageSet"
	operatorGroup     = "operator.openshift.io"
)

// maxDepth limits nested values. Users nest far fewer.
const maxDepth = 100

type object struct {
	at Position
	// as the user wrote them
	kind, apiVersion, name string
	// as JSON values; nil if bad is set
	content map[string]any
	// why the object cannot be read
	bad error
}

func (o object) id() string { return o.apiVersion + " " + o.kind + " " + o.name }

// is reports whether the object has the kind in version v1 of the API group.
func (o object) is(group, kind string) bool { return o.kind == kind && o.apiVersion == group+"/v1" }

// read splits one input into objects. The error means that its text is invalid, so that its objects are unknown.
func read(in Input) ([]object, error) {
	dec := yaml.NewDecoder(bytes.NewReader(in.Data))
	var out []object
	for {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %s; nothing is imported, because what is missing is not known",
				safetext.OneLine(in.Name), safetext.OneLine(strings.TrimPrefix(err.Error(), "yaml: ")))
		}
		if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
			continue
		}
		out = append(out, objectsOf(in.Name, doc.Content[0], 0)...)
	}
}

// objectsOf returns the object of a node, or the objects of a list.
func objectsOf(file string, n *yaml.Node, depth int) []object {
	items := Field(n, "items")
	if items == nil || items.Kind != yaml.SequenceNode || !strings.HasSuffix(ScalarText(n, "kind"), "List") ||
		depth > maxDepth {
		return []object{objectOf(file, n)}
	}
	var out []object
	for _, item := range items.Content {
		out = append(out, objectsOf(file, item, depth+1)...)
	}
	return out
}

func objectOf(file string, n *yaml.Node) object {
	o := object{
		at:   Position{File: file, Line: n.Line},
		kind: ScalarText(n, "kind"), apiVersion: ScalarText(n, "apiVersion"),
		name: ScalarText(Field(n, "metadata"), "name"),
	}
	if n.Kind != yaml.MappingNode {
		o.bad = errors.New("it is not an object: an object is a mapping that begins with apiVersion and kind")
		return o
	}
	v, err := value(n, 0)
	if err != nil {
		o.bad = err
		return o
	}
	o.content, _ = v.(map[string]any)
	return o
}

// value reads a node as Kubernetes reads YAML, but without aliases, because these can expand to gigabytes.
func value(n *yaml.Node, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("line %d: nested more than %d levels deep", n.Line, maxDepth)
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			switch _, twice := out[k.Value]; {
			case k.Kind != yaml.ScalarNode:
				return nil, fmt.Errorf("line %d: a key is a list or a mapping: write a plain word", k.Line)
			case k.ShortTag() == "!!merge":
				return nil, fmt.Errorf("line %d: YAML merge key <<: aliases are not followed; write the values out",
					k.Line)
			case twice:
				return nil, fmt.Errorf("line %d: key %q stands twice; keep one", k.Line, k.Value)
			}
			v, err := value(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			out[k.Value] = v
		}
		return out, nil
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := value(c, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.ScalarNode:
		return scalarValue(n), nil
	default:
		return nil, fmt.Errorf("line %d: YAML aliases are not read; write the value out", n.Line)
	}
}

// booleans are the words besides true and false that Kubernetes reads as booleans.
var booleans = map[string]bool{
	"yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true, "no": false,
	"No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

func scalarValue(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i
		}
		var f float64
		if n.Decode(&f) == nil {
			return f
		}
	case "!!float":
		var f float64
		if n.Decode(&f) == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f
		}
	case "!!str":
		if b, ok := booleans[n.Value]; ok && n.Style == 0 {
			return b
		}
	}
	return n.Value
}

// isAboutRegistries reports whether an object says where images come from.
func (o object) isAboutRegistries() bool { return kinds.IsRegistriesKind(o.apiVersion, o.kind) }

// validRegistries returns the documents of objects that are valid together, and sets the others aside.
func (a *adoption) validRegistries(all []int) (taken []document) {
	var docs []kinds.RegistriesDocument
	for _, i := range all {
		o := a.objects[i]
		body, err := Encode(settingsBody(o))
		if bad := badName(o.name); bad != "" {
			err = errors.New(bad)
		}
		for _, pool := range slices.Sorted(maps.Keys(a.documents)) {
			name := kinds.FragmentName(pool)
			if slices.ContainsFunc(a.documents[pool], func(d document) bool { return d.config.name == name }) {
				err = fmt.Errorf("the MachineConfig %s, which a controller made of it, is imported already; keep one "+
					"of the two", name)
			}
		}
		next := kinds.RegistriesDocument{Kind: o.kind, ObjectInput: kinds.ObjectInput{
			Source: body,
			Origin: origin.Map{At: map[string]origin.Pos{"$": {File: o.at.String()}}},
		}}
		if err == nil {
			if _, findings := kinds.TranslateRegistries(append(slices.Clone(docs), next)); origin.Fatal(findings) {
				err = rejection(findings)
			}
		}
		if err != nil {
			a.setAside(i, err.Error())
			continue
		}
		docs = append(docs, next)
		taken = append(taken, document{
			config: config{index: i}, file: registriesFile(o), body: body,
			of: a.out.Objects[i].String(), shareable: true,
		})
	}
	return taken
}

func registriesFile(o object) string {
	return strings.ToLower(o.kind) + "-" + FileName(o.name) + ".yaml"
}
