package kubelet

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/object"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	// PathAnnotation names the file that a document's kubelet configuration is written to.
	PathAnnotation = "bunsen.dev/path"
	// DefaultPath is that file where the document does not say: it is where OpenShift's kubelet reads.
	DefaultPath = "/etc/kubernetes/kubelet.conf"
	logPath     = "/etc/systemd/system/kubelet.service.d/20-logging.conf"
	sizingPath  = "/etc/node-sizing-enabled.env"
	// poolLabel with a pool's name behind it is a label that every MachineConfigPool of the original has.
	poolLabel = "pools.operator.machineconfiguration.openshift.io/"
	// controlPlane is the pool whose kubelets start the cluster itself.
	controlPlane = "master"
	maxLogLevel  = 10
)

// Input is one document.
type Input struct {
	// Pool whose directory holds it.
	Pool string
	// Source is the document as YAML.
	Source []byte
	// Origin maps paths in the document to places in the repository.
	Origin origin.Map
}

// Output is the files of one document.
type Output struct {
	// Config holds the files.
	Config machineconfig.Config
	// Origin maps paths of the output to places in the repository.
	Origin origin.Map
}

// Configuration translates a KubeletConfiguration, the kubelet's own kind. It may have metadata, which the kubelet would
// refuse and does not get. The output is the zero value where a finding is fatal.
func Configuration(in Input) (Output, []origin.Finding) {
	t, ok := begin(in)
	if !ok {
		return Output{}, t.findings
	}
	settings := map[string]any{}
	for k, v := range t.object {
		if k != "metadata" {
			settings[k] = v
		}
	}
	t.settings(settings, "$", false)
	t.write(settings, "$.kind")
	return t.end()
}

// Config translates a KubeletConfig, OpenShift's kind. The output is the zero value where a finding is fatal.
func Config(in Input) (Output, []origin.Finding) {
	t, ok := begin(in)
	if !ok {
		return Output{}, t.findings
	}
	var kc mcfgv1.KubeletConfig
	t.findings = append(t.findings, object.Part{Object: t.object, Path: "$", Places: in.Origin, What: "KubeletConfig"}.Decode(&kc)...)
	if origin.Fatal(t.findings) {
		return t.end()
	}
	spec, _ := t.object["spec"].(map[string]any)
	settings, _ := spec["kubeletConfig"].(map[string]any)
	t.selector(kc.Spec.MachineConfigPoolSelector)
	sizing := kc.Spec.AutoSizingReserved != nil && *kc.Spec.AutoSizingReserved
	if settings != nil {
		t.settings(settings, settingsPath, sizing)
	}
	reserved := t.reserved(settings)
	secured := t.tls(kc.Spec.TLSSecurityProfile, settings)
	if kc.Spec.KubeletConfig == nil && kc.Spec.LogLevel == nil && kc.Spec.AutoSizingReserved == nil && kc.Spec.TLSSecurityProfile == nil {
		t.fatal("$.spec", "document", "the KubeletConfig says nothing: give it kubeletConfig, logLevel, autoSizingReserved or tlsSecurityProfile")
	}
	if len(secured) > 0 {
		at := settingsPath
		if settings == nil {
			at = "$.spec.tlsSecurityProfile"
		}
		t.write(secured, at)
	}
	t.logLevel(kc.Spec.LogLevel)
	t.sizing(kc.Spec.AutoSizingReserved, reserved)
	return t.end()
}

// settingsPath is where a KubeletConfig holds the kubelet's own fields.
const settingsPath = "$.spec.kubeletConfig"

// translator gathers one document's files.
type translator struct {
	in       Input
	object   map[string]any
	path     string
	named    bool // by the document itself
	whole    bool // a file of the kubelet's is written
	files    []ign.File
	places   map[string]origin.Pos
	findings []origin.Finding
}

func begin(in Input) (*translator, bool) {
	t := &translator{in: in, path: DefaultPath, places: map[string]origin.Pos{}}
	var err error
	if t.object, err = object.Read(in.Source); err != nil || t.object == nil {
		t.fatal("$", "yaml", "not an object: an object is a mapping that begins with apiVersion and kind")
		return t, false
	}
	t.findPath()
	return t, true
}

func (t *translator) fatal(at, rule, format string, args ...any) {
	p, _ := t.in.Origin.Find(at)
	t.findings = append(t.findings, origin.Finding{Rule: rule, Message: fmt.Sprintf(format, args...), At: p})
}

// findPath reads where the document wants its file.
func (t *translator) findPath() {
	meta, _ := t.object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	value, ok := annotations[PathAnnotation]
	if !ok {
		return
	}
	text, _ := value.(string)
	if !path.IsAbs(text) || path.Clean(text) != text || text == "/" {
		t.fatal("$.metadata.annotations."+PathAnnotation, "path", "%s: %q is no path of a file: it begins with / and has no . or .. in it", PathAnnotation, text)
		return
	}
	t.path, t.named = text, true
}

// selector refuses a selector that would not choose the pool: a pool's directory says who gets a document.
func (t *translator) selector(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || sel.Empty() || !sel.Matches(labels.Set{poolLabel + t.in.Pool: ""}) {
		t.fatal("$.spec.machineConfigPoolSelector", "selector", "the directory says which pool a document is for, and this selector does not choose %s: remove it, or select the label %s%s", t.in.Pool, poolLabel, t.in.Pool)
	}
}

// write adds the kubelet's own file with exactly what the document says: in a drop-in, each field more would overrule
// another file's.
func (t *translator) write(settings map[string]any, from string) {
	out := map[string]any{"apiVersion": kubelet.SchemeGroupVersion.String(), "kind": "KubeletConfiguration"}
	for k, v := range settings {
		out[k] = v
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		t.fatal(from, "field", "writing the kubelet's configuration: %v", err)
		return
	}
	t.add(t.path, string(text), from)
	t.whole = true
	at := fmt.Sprintf("$.storage.files.%d", len(t.files)-1)
	if p, ok := t.patched(from); ok {
		t.places[at+".contents.source"] = p
	}
	if t.named {
		if p, ok := t.in.Origin.Find("$.metadata.annotations." + PathAnnotation); ok {
			t.places[at+".path"] = p
		}
	}
}

// patched finds who changed the kubelet's fields after the document was written: the first line of another file.
func (t *translator) patched(from string) (origin.Pos, bool) {
	own, _ := t.in.Origin.Find(from)
	var first origin.Pos
	for p, at := range t.in.Origin.At {
		inside := strings.HasPrefix(p, from+".") || from == "$.kind" && !strings.HasPrefix(p, "$.metadata")
		if inside && at.File != own.File && at.Line > 0 && (first.Line == 0 || at.Compare(first) < 0) {
			first = at
		}
	}
	return first, first.Line > 0
}

// add adds one file whose contents come from one place.
func (t *translator) add(file, text, from string) {
	source, mode, overwrite := "data:,"+url.PathEscape(text), 0o644, true
	t.files = append(t.files, ign.File{
		Node:          ign.Node{Path: file, Overwrite: &overwrite},
		FileEmbedded1: ign.FileEmbedded1{Mode: &mode, Contents: ign.Resource{Source: &source}},
	})
	at := fmt.Sprintf("$.storage.files.%d", len(t.files)-1)
	if p, ok := t.in.Origin.Find(from); ok {
		t.places[at], t.places[at+".contents.source"] = p, p
	}
}

func (t *translator) end() (Output, []origin.Finding) {
	if origin.Fatal(t.findings) {
		return Output{}, t.findings
	}
	if t.whole && !t.named {
		at, _ := t.in.Origin.Find("$.kind")
		t.findings = append(t.findings, origin.Finding{
			Warning: true, Rule: "kubelet-path", At: at,
			Message: fmt.Sprintf("the whole of %s will be this document, as on OpenShift; where kubeadm made the cluster that file holds the kubelet's credentials, and a node would be lost: say which file it is with the annotation %s", DefaultPath, PathAnnotation),
		})
	}
	if p, ok := t.in.Origin.Find("$"); ok {
		t.places["$"] = p
	}
	out := Output{Origin: origin.Map{Files: t.in.Origin.Files, At: t.places}}
	out.Config.HasIgnition = true
	out.Config.Ignition.Ignition.Version = machineconfig.Version
	out.Config.Ignition.Storage.Files = t.files
	return out, t.findings
}
