package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ghodss/yaml"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Writing the text that the hash is over takes most of a merge's time, and nearly all of that goes into files and units
// that are the same as last time. So their YAML is kept by their JSON. The text must be what one call writes for all, to
// the byte: an item is therefore written in the same place of an otherwise empty document, and cut out.

// pieces is the YAML of list items by list and JSON.
type pieces map[piece]string

type piece struct{ section, list, json string }

// longLists are the lists whose items are kept.
var longLists = []struct{ section, list string }{{"storage", "files"}, {"systemd", "units"}}

// rareBreaks are the line breaks of Unicode, raw and as JSON writes them. The YAML writer loses count of lines over them,
// so that what it writes for an item depends on what comes next.
var rareBreaks = []string{"\u0085", "\u2028", "\u2029", `\u0085`, `\u2028`, `\u2029`}

// hashed returns the text that a name's hash is over. Items are taken from old where it has them, and left in p.
func (p pieces) hashed(spec mcfgv1.MachineConfigSpec, old pieces) ([]byte, error) {
	for _, b := range rareBreaks {
		if bytes.Contains(spec.Config.Raw, []byte(b)) {
			return yaml.Marshal(spec)
		}
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(spec.Config.Raw, &config); err != nil {
		return nil, err
	}
	marks := map[string]string{}
	for _, l := range longLists {
		text, err := p.takeOut(config, l.section, l.list, old)
		if err != nil {
			return nil, err
		}
		if text != "" {
			marks[mark(l.list)] = text
		}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	skeleton := spec
	skeleton.Config = runtime.RawExtension{Raw: raw}
	text, err := yaml.Marshal(skeleton)
	if err != nil {
		return nil, err
	}
	out := string(text)
	for line, items := range marks {
		before, after, ok := strings.Cut(out, line)
		if !ok || strings.Contains(after, line) {
			return yaml.Marshal(spec) // somebody's text looks like a mark
		}
		out = before + items + after
	}
	return []byte(out), nil
}

// mark is the line that stands for a list's items in the skeleton.
func mark(list string) string { return "\n    - items-of-" + list + "\n" }

// takeOut replaces the items of a list in a config by its mark, and returns their YAML as it goes into the mark's place;
// "" if there are none.
func (p pieces) takeOut(config map[string]json.RawMessage, section, list string, old pieces) (string, error) {
	var lists map[string]json.RawMessage
	var items []json.RawMessage
	if config[section] == nil {
		return "", nil
	}
	if err := json.Unmarshal(config[section], &lists); err != nil {
		return "", err
	}
	if lists[list] == nil {
		return "", nil
	}
	if err := json.Unmarshal(lists[list], &items); err != nil || len(items) == 0 {
		return "", err
	}
	at := make([]piece, len(items))
	for i, item := range items {
		at[i] = piece{section, list, string(item)}
	}
	if err := p.write(at, old); err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString("\n")
	for _, k := range at {
		text.WriteString(p[k])
	}
	lists[list] = json.RawMessage(`["items-of-` + list + `"]`)
	var err error
	config[section], err = json.Marshal(lists)
	return text.String(), err
}

// write fills p with the YAML of these items of one list, indented as in a spec: from old, or written, all new ones in
// one call.
func (p pieces) write(items []piece, old pieces) error {
	var missing []piece
	var raw []string
	for _, k := range items {
		if text, ok := old[k]; ok {
			p[k] = text
		} else {
			missing, raw = append(missing, k), append(raw, k.json)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	section, list := missing[0].section, missing[0].list
	text, err := yaml.JSONToYAML([]byte(`{"config":{"` + section + `":{"` + list + `":[` + strings.Join(raw, ",") + `]}}}`))
	if err != nil {
		return err
	}
	// All that belongs to an item is indented deeper than the dash that begins it.
	parts := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n    - ")
	if len(parts) != len(missing)+1 {
		return fmt.Errorf("the YAML of %d items of %s.%s has %d", len(missing), section, list, len(parts)-1)
	}
	for i, k := range missing {
		p[k] = "    - " + parts[i+1] + "\n"
	}
	return nil
}
