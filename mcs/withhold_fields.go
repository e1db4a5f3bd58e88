package mcs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// fields binds each text of a config that holds a secret, in whatever field: mount options, a link's target, a kernel argument.
// It reads the config as JSON, so that it knows the fields of later versions too. Contents and what is bound already are left
// out, because other methods decide about them.
func (w *withholder) fields(c machineconfig.Config) {
	var ignition any
	raw, err := json.Marshal(c.Ignition)
	if err == nil {
		err = json.Unmarshal(raw, &ignition)
	}
	w.bind("spec.config", err != nil) // what cannot be read is not shown
	w.texts("", ignition)
	for _, text := range []struct{ field, value string }{
		{"spec.osImageURL", c.OSImageURL}, {"spec.baseOSExtensionsContainerImage", c.ExtensionsImage}, {"spec.kernelType", c.KernelType},
	} {
		w.bind(text.field, secretText(text.value))
	}
	for i, extension := range c.Extensions {
		w.bind(fmt.Sprintf("spec.extensions[%d]", i), secretText(extension))
	}
	for i, arg := range c.KernelArguments {
		w.bind(fmt.Sprintf("spec.kernelArguments[%d]", i), secretText(arg))
	}
}

// texts binds the secret texts of a JSON value that stands in a field.
func (w *withholder) texts(field string, v any) {
	switch v := v.(type) {
	case string:
		w.bind(field, !w.isDecided(field) && secretText(v))
	case []any:
		for i, item := range v {
			w.texts(fmt.Sprintf("%s[%s]", field, labelOf(item, i)), item)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			w.texts(strings.TrimPrefix(field+"."+key, "."), v[key])
		}
	}
}

// isDecided reports whether another method decides about a field: it holds contents, or is a part of what is bound.
func (w *withholder) isDecided(field string) bool {
	isContent := strings.HasPrefix(field, "storage.files[") && strings.HasSuffix(field, ".source") ||
		strings.HasPrefix(field, "systemd.units[") && strings.HasSuffix(field, ".contents")
	return isContent || slices.ContainsFunc(w.bound, func(b string) bool { return strings.HasPrefix(field+".", b+".") })
}

// labelOf names an item of a list by its path, name or device, or by its number where it has none that may be shown.
func labelOf(item any, i int) string {
	object, _ := item.(map[string]any)
	for _, key := range []string{"path", "name", "device"} {
		if label, _ := object[key].(string); label != "" && !secretText(label) {
			return label
		}
	}
	return fmt.Sprint(i)
}
