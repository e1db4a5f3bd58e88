package mcs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// needFields records secret texts in fields that no other method checks, such as a mount option, a link's target or a
// kernel argument. The machine needs these fields for its first boot. needFields reads the config as JSON, so it also
// finds secrets in fields of later versions. Other methods of withholder decide about contents and about fields that
// are already recorded.
func (w *withholder) needFields(c machineconfig.Config) {
	var ignition any
	raw, err := json.Marshal(c.Ignition)
	if err == nil {
		err = json.Unmarshal(raw, &ignition)
	}
	w.need("spec.config", err != nil) // A config that cannot be encoded counts as secret.
	w.needTexts("", ignition)
	for _, text := range []struct{ field, value string }{
		{"spec.osImageURL", c.OSImageURL},
		{"spec.baseOSExtensionsContainerImage", c.ExtensionsImage},
		{"spec.kernelType", c.KernelType},
	} {
		w.need(text.field, secretText(text.value))
	}
	for i, extension := range c.Extensions {
		w.need(fmt.Sprintf("spec.extensions[%d]", i), secretText(extension))
	}
	for i, arg := range c.KernelArguments {
		w.need(fmt.Sprintf("spec.kernelArguments[%d]", i), secretText(arg))
	}
}

// needTexts records the secret texts in a JSON value of a field.
func (w *withholder) needTexts(field string, v any) {
	switch v := v.(type) {
	case string:
		w.need(field, !w.isDecided(field) && secretText(v))
	case []any:
		for i, item := range v {
			w.needTexts(fmt.Sprintf("%s[%s]", field, labelOf(item, i)), item)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			w.needTexts(strings.TrimPrefix(field+"."+key, "."), v[key])
		}
	}
}

// isDecided reports whether another method decides about a field, because the field contains contents or is part of a
// recorded field.
func (w *withholder) isDecided(field string) bool {
	isContent := strings.HasPrefix(field, "storage.files[") && strings.HasSuffix(field, ".source") ||
		strings.HasPrefix(field, "systemd.units[") && strings.HasSuffix(field, ".contents")
	return isContent || slices.ContainsFunc(w.needed, func(b string) bool {
		return strings.HasPrefix(field+".", b+".")
	})
}

// labelOf returns the path, name or device of an item of a list. If this text may be secret, labelOf returns the index.
func labelOf(item any, i int) string {
	object, _ := item.(map[string]any)
	for _, key := range []string{"path", "name", "device"} {
		if label, _ := object[key].(string); label != "" && !secretText(label) {
			return label
		}
	}
	return fmt.Sprint(i)
}
