package kinds

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// poolLabel is the prefix of a label that each MachineConfigPool of the machine-config operator has. The pool's name
// follows the prefix.
const poolLabel = "pools.operator.machineconfiguration.openshift.io/"

// ObjectInput is one document.
type ObjectInput struct {
	// Pool is the name of the pool whose directory contains the document.
	Pool string
	// Source is the document as YAML.
	Source []byte
	// Origin maps paths in the document to positions in the repository.
	Origin origin.Map
}

// ObjectOutput is one document as a config.
type ObjectOutput struct {
	// Config is the config of the machine.
	Config machineconfig.Config
	// Origin maps paths of the config to positions in the repository.
	Origin origin.Map
}

// ObjectTranslation collects the config and the findings of one document.
type ObjectTranslation struct {
	// In is the document. Object is its content.
	In     ObjectInput
	Object map[string]any
	// Config is the config of the machine.
	Config ign.Config
	// At maps parts of the config to their positions in the repository.
	At map[string]origin.Pos
	// Findings are the errors and warnings about the document.
	Findings []origin.Finding
}

// BeginObject reads a document. Begin returns false, with a finding, if the document is not an object.
func BeginObject(in ObjectInput) (*ObjectTranslation, bool) {
	t := &ObjectTranslation{In: in, At: map[string]origin.Pos{}}
	var err error
	if t.Object, err = ReadObject(in.Source); err != nil || t.Object == nil {
		t.Errorf("$", "yaml", "not an object: an object is a mapping that begins with apiVersion and kind")
		return t, false
	}
	return t, true
}

// Decode fills a typed object with the document. If the document cannot be decoded, Decode returns false, with
// findings.
func (t *ObjectTranslation) Decode(kind string, into any) bool {
	t.Findings = append(t.Findings, ObjectPart{
		Object: t.Object, Path: "$", Places: t.In.Origin,
		What: kind,
	}.Decode(into)...)
	return !origin.Fatal(t.Findings)
}

// Errorf adds an error about a path in the document.
func (t *ObjectTranslation) Errorf(path, rule, format string, args ...any) {
	at, _ := t.In.Origin.Find(path)
	t.Findings = append(t.Findings, origin.Errorf(at, rule, format, args...))
}

// Warnf adds a warning about a path in the document.
func (t *ObjectTranslation) Warnf(path, rule, format string, args ...any) {
	at, _ := t.In.Origin.Find(path)
	t.Findings = append(t.Findings, origin.Warningf(at, rule, format, args...))
}

// CheckSelector refuses a selector that does not select the pool, because the directory decides which pool uses the
// document.
func (t *ObjectTranslation) CheckSelector(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || sel.Empty() || !sel.Matches(labels.Set{poolLabel + t.In.Pool: ""}) {
		t.Errorf("$.spec.machineConfigPoolSelector", "selector", "the directory says which pool a document is for, "+
			"and this selector does not select %s: remove it, or select the label %s%s", t.In.Pool, poolLabel,
			t.In.Pool)
	}
}

// SetOrigin sets the origin of a path in the config to the position of a path in the document.
func (t *ObjectTranslation) SetOrigin(to, from string) {
	if p, ok := t.In.Origin.Find(from); ok {
		t.At[to] = p
	}
}

// AddFile adds a file to the config. The origin of the file is the position of a path in the document. AddFile returns
// the file's path in the config.
func (t *ObjectTranslation) AddFile(name, text, from string) string {
	at := t.addFile(name, text)
	t.SetOrigin(at, from)
	t.SetOrigin(at+".contents.source", from)
	return at
}

// AddFileAt adds a file to the config, with its position in the repository.
func (t *ObjectTranslation) AddFileAt(name, text string, pos origin.Pos) {
	at := t.addFile(name, text)
	t.At[at], t.At[at+".contents.source"] = pos, pos
}

// addFile adds a file and returns its path in the config.
func (t *ObjectTranslation) addFile(name, text string) string {
	source, mode, overwrite := "data:,"+url.PathEscape(text), 0o644, true
	files := &t.Config.Storage.Files
	*files = append(*files, ign.File{
		Node:          ign.Node{Path: name, Overwrite: &overwrite},
		FileEmbedded1: ign.FileEmbedded1{Mode: &mode, Contents: ign.Resource{Source: &source}},
	})
	return fmt.Sprintf("$.storage.files.%d", len(*files)-1)
}

// End returns the config with all findings. If a finding is fatal, the output is the zero value.
func (t *ObjectTranslation) End() (ObjectOutput, []origin.Finding) {
	if origin.Fatal(t.Findings) {
		return ObjectOutput{}, t.Findings
	}
	t.SetOrigin("$", "$")
	t.Config.Ignition.Version = machineconfig.Version
	return ObjectOutput{
		Config: machineconfig.Config{HasIgnition: true, Ignition: t.Config},
		Origin: origin.Map{Files: t.In.Origin.Files, At: t.At},
	}, t.Findings
}

// ObjectDigest returns the sha256 of an object's JSON, as `sha256:<hex>`. Equal objects have equal digests, because
// Go's JSON encoder sorts the keys of maps.
func ObjectDigest(object any) (string, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("writing the object as JSON: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
