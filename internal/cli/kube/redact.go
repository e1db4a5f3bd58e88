package kube

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// contentFields are the fields with contents: of files, units and drop-ins, of a RevisionContent and of a ConfigMap,
// and the sections of an Ignition config, which an annotation may have too.
var contentFields = map[string]bool{
	"source": true, "contents": true, "inline": true, "passwordHash": true, "keyFile": true, "httpHeaders": true,
	"data": true, "binaryData": true, "stringData": true,
	"storage": true, "systemd": true, "passwd": true, "ignition": true,
}

// ignitionNames are the fields of an Ignition config whose texts are names. A bundle has the sizes of all other texts.
var ignitionNames = map[string]bool{
	"path": true, "name": true, "version": true, "target": true, "device": true, "devices": true, "format": true,
	"level": true, "hash": true, "compression": true,
}

var (
	// dataURL is contents in a text. Where they end is not known, so the rest of the line goes.
	dataURL  = regexp.MustCompile(`(?i)\bdata:\S.*`)
	userinfo = regexp.MustCompile(`://[^\s/]*@`)
)

const leftOut = "data:(left out)"

const machineConfig = "MachineConfig"

// MaskedText returns a text, such as a log, without the contents in its data URLs and without the log-ins of its
// addresses. Bunsen's programs write no other contents to logs and statuses.
func MaskedText(text string) string {
	return userinfo.ReplaceAllString(dataURL.ReplaceAllString(text, leftOut), "://(left out)@")
}

// MaskedObject returns an object as YAML with sizes in place of contents, without managed fields and the copy that
// kubectl makes of an applied object.
func MaskedObject(o *unstructured.Unstructured) ([]byte, error) {
	stripped := o.DeepCopy()
	stripped.SetManagedFields(nil)
	annotations := stripped.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	stripped.SetAnnotations(annotations)
	object := withoutContents(stripped.Object)
	if config, ok, _ := unstructured.NestedFieldNoCopy(stripped.Object, "spec", "config"); ok &&
		o.GetKind() == machineConfig {
		object["spec"].(map[string]any)["config"] = sizes(config, false) //nolint:forcetypeassert // it has a config
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return text, nil
}

func withoutContents(object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for key, value := range object {
		if contentFields[key] {
			out[key] = sizes(value, false)
		} else {
			out[key] = withoutContentsIn(value)
		}
	}
	return out
}

// withoutContentsIn puts sizes in place of contents. A text that is JSON, such as the value of an annotation, is a
// value with fields too.
func withoutContentsIn(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return withoutContents(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutContentsIn(v[i])
		}
		return out
	case string:
		var inner any
		if strings.ContainsAny(v[:min(1, len(v))], "{[") && json.Unmarshal([]byte(v), &inner) == nil {
			if out, err := json.Marshal(withoutContentsIn(inner)); err == nil {
				return string(out)
			}
		}
		return withoutText(v)
	}
	return value
}

// withoutText is MaskedText for a value that may have several lines: contents end where the value ends.
func withoutText(value string) string {
	if at := dataURL.FindStringIndex(value); at != nil {
		value = value[:at[0]] + leftOut
	}
	return MaskedText(value)
}

// sizes returns a value with the size of each text that is not a name. isName: the field has names.
func sizes(value any, isName bool) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = sizes(inner, ignitionNames[key])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = sizes(v[i], isName)
		}
		return out
	case string:
		if !isName {
			return fmt.Sprintf("(left out, %d bytes)", len(v))
		}
	}
	return value
}
