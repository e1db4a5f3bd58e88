package kinds

import (
	"path"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	// KubeletPathAnnotation contains the path of the file to which Bunsen writes a document's kubelet configuration.
	KubeletPathAnnotation = "bunsen.dev/path"
	// KubeletConfigPath is the path of the kubelet's configuration if a document does not have PathAnnotation.
	// OpenShift's kubelet reads the file at DefaultPath.
	KubeletConfigPath = "/etc/kubernetes/kubelet.conf"
	logPath           = "/etc/systemd/system/kubelet.service.d/20-logging.conf"
	sizingPath        = "/etc/node-sizing-enabled.env"
	// controlPlane is the name of the pool whose kubelets start the API server.
	controlPlane = "master"
	maxLogLevel  = 10
)

// KubeletConfiguration translates a KubeletConfiguration, which is the kubelet's own kind. Configuration removes the
// metadata, which the kubelet would refuse. If a finding is fatal, the output is the zero value.
func KubeletConfiguration(in ObjectInput) (ObjectOutput, []origin.Finding) {
	t, ok := begin(in)
	if !ok {
		return t.End()
	}
	settings := map[string]any{}
	for k, v := range t.Object {
		if k != "metadata" {
			settings[k] = v
		}
	}
	if len(settings) <= 2 { // apiVersion and kind
		t.Errorf("$", "document", "the KubeletConfiguration sets nothing: write the kubelet's fields")
	}
	t.settings(settings, "$", false)
	t.write(settings, "$.kind")
	return t.end()
}

// TranslateKubelet translates a KubeletConfig, which is OpenShift's kind. If a finding is fatal, the output is the zero
// value.
func TranslateKubelet(in ObjectInput) (ObjectOutput, []origin.Finding) {
	t, ok := begin(in)
	if !ok {
		return t.End()
	}
	var kc mcfgv1.KubeletConfig
	if !t.Decode("KubeletConfig", &kc) {
		return t.End()
	}
	spec, _ := t.Object["spec"].(map[string]any)
	settings, isMapping := spec["kubeletConfig"].(map[string]any)
	switch value := spec["kubeletConfig"]; {
	case value != nil && !isMapping: // The type of the field accepts everything.
		t.Errorf(kubeletSettings, "field", "not a KubeletConfig: spec.kubeletConfig is a mapping of the kubelet's "+
			"fields, and "+
			"this is none: write the fields below it, without | and without -")
	case isMapping && len(settings) == 0:
		t.Errorf(kubeletSettings, "document",
			"kubeletConfig is empty: write the kubelet's fields below it, or remove it")
	}
	t.CheckSelector(kc.Spec.MachineConfigPoolSelector)
	sizing := kc.Spec.AutoSizingReserved != nil && *kc.Spec.AutoSizingReserved
	if settings != nil {
		t.settings(settings, kubeletSettings, sizing)
	}
	reserved := t.reserved(settings)
	secured := t.tls(kc.Spec.TLSSecurityProfile, settings)
	if kc.Spec.KubeletConfig == nil && kc.Spec.LogLevel == nil && kc.Spec.AutoSizingReserved == nil &&
		kc.Spec.TLSSecurityProfile == nil {
		t.Errorf("$.spec", "document", "the KubeletConfig says nothing: give it kubeletConfig, logLevel, "+
			"autoSizingReserved or tlsSecurityProfile")
	}
	if len(secured) > 0 {
		at := kubeletSettings
		if settings == nil {
			at = "$.spec.tlsSecurityProfile"
		}
		t.write(secured, at)
	}
	t.logLevel(kc.Spec.LogLevel)
	t.sizing(kc.Spec.AutoSizingReserved, reserved)
	return t.end()
}

// kubeletSettings is the path of the kubelet's own fields in a KubeletConfig.
const kubeletSettings = "$.spec.kubeletConfig"

// translator collects the files of one document.
type translator struct {
	*ObjectTranslation
	path  string
	named bool // named is true if the document itself has PathAnnotation.
	whole bool // whole is true if the output contains the kubelet's main configuration file.
}

func begin(in ObjectInput) (*translator, bool) {
	base, ok := BeginObject(in)
	t := &translator{ObjectTranslation: base, path: KubeletConfigPath}
	if ok {
		t.findPath()
	}
	return t, ok
}

// findPath reads the path of the kubelet's configuration from the document.
func (t *translator) findPath() {
	meta, _ := t.Object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	value, ok := annotations[KubeletPathAnnotation]
	if !ok {
		return
	}
	text, _ := value.(string)
	if !path.IsAbs(text) || path.Clean(text) != text || text == "/" {
		t.Errorf("$.metadata.annotations."+KubeletPathAnnotation, "path",
			"%s: %q is no path of a file: it begins with / "+
				"and has no . or .. in it", KubeletPathAnnotation, text)
		return
	}
	t.path, t.named = text, true
}

// write adds the kubelet's configuration file with exactly the fields of the document. If the file is a drop-in, an
// additional field would override the value in another file.
func (t *translator) write(settings map[string]any, from string) {
	out := map[string]any{"apiVersion": kubelet.SchemeGroupVersion.String(), "kind": "KubeletConfiguration"}
	for k, v := range settings {
		out[k] = v
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		t.Errorf(from, "field", "writing the kubelet's configuration: %v", err)
		return
	}
	at := t.AddFile(t.path, string(text), from)
	t.whole = true
	if p, ok := t.patched(from); ok {
		t.At[at+".contents.source"] = p
	}
	if t.named {
		if p, ok := t.In.Origin.Find("$.metadata.annotations." + KubeletPathAnnotation); ok {
			t.At[at+".path"] = p
		}
	}
}

// patched returns the first line, in a file other than the document's own, that set one of the kubelet's fields.
func (t *translator) patched(from string) (origin.Pos, bool) {
	own, _ := t.In.Origin.Find(from)
	var first origin.Pos
	for p, at := range t.In.Origin.At {
		inside := strings.HasPrefix(p, from+".") || from == "$.kind" && !strings.HasPrefix(p, "$.metadata")
		if inside && at.File != own.File && at.Line > 0 && (first.Line == 0 || at.Compare(first) < 0) {
			first = at
		}
	}
	return first, first.Line > 0
}

func (t *translator) end() (ObjectOutput, []origin.Finding) {
	if t.whole && !t.named && !origin.Fatal(t.Findings) {
		t.Warnf("$.kind", "kubelet-path", "this document replaces the whole file %s, as on OpenShift. On a cluster "+
			"of kubeadm that file has settings for the kubelet's credentials, and the node would be lost. Name the "+
			"file in the annotation %s", KubeletConfigPath, KubeletPathAnnotation)
	}
	return t.End()
}
