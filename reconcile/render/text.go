package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/ghodss/yaml"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Writing a config as JSON, and as the YAML that the hash of a name is over, takes most of the time of a merge, and nearly
// all of that goes into items that are the same as last time. So each item's texts are made once and kept. What is put
// together from them must be what one call writes for all, to the byte: items are therefore written in their place of an
// otherwise empty document, and cut out.

// text is one item as it stands in a rendered config.
type text struct {
	// json is its canonical JSON.
	json []byte
	// yaml is its YAML, indented as in a spec, with the line break at its end; nil if it has to be written with the whole.
	yaml []byte
}

// split cuts the items of the lists out of compact JSON of an Ignition config: what stands in a list two keys below the
// top.
func split(raw []byte) (items [listCount][][]byte, err error) {
	var path [2]string // the keys above
	depth, list, start := 0, -1, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			end := i + 1
			for end < len(raw) && raw[end] != '"' {
				if raw[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(raw) {
				return items, errors.New("the JSON of a config ends within a text")
			}
			if (depth == 1 || depth == 2) && end+1 < len(raw) && raw[end+1] == ':' {
				path[depth-1] = string(raw[i+1 : end])
			}
			i = end
		case '{', '[':
			if depth++; depth == 3 && raw[i] == '[' {
				list, start = listAt(path), i+1
			}
		case '}', ']':
			if depth == 3 && list >= 0 && i > start {
				items[list] = append(items[list], raw[start:i:i])
			}
			if depth--; depth < 3 {
				list = -1
			}
		case ',':
			if depth == 3 && list >= 0 {
				items[list] = append(items[list], raw[start:i:i])
				start = i + 1
			}
		}
	}
	return items, nil
}

func listAt(path [2]string) int {
	for list, l := range listTable {
		if l.section == path[0] && l.name == path[1] {
			return list
		}
	}
	return -1
}

// document is a rendered spec in parts: the text between the lists, and the texts of their items.
type document struct {
	spec  mcfgv1.MachineConfigSpec
	texts texts
}

// mark is the key of the one item that stands for a list in the text between the lists.
func mark(list int) string { return "items-of-" + listTable[list].name }

// marked returns the lists with a mark in each that has items.
func (d *document) marked() (l lists) {
	node := func(list int) ign.Node { return ign.Node{Path: mark(list)} }
	has := func(list int) bool { return len(d.texts[list]) > 0 }
	if has(listFiles) {
		l.files = []ign.File{{Node: node(listFiles)}}
	}
	if has(listDirectories) {
		l.directories = []ign.Directory{{Node: node(listDirectories)}}
	}
	if has(listLinks) {
		l.links = []ign.Link{{Node: node(listLinks)}}
	}
	if has(listUnits) {
		l.units = []ign.Unit{{Name: mark(listUnits)}}
	}
	if has(listUsers) {
		l.users = []ign.PasswdUser{{Name: mark(listUsers)}}
	}
	if has(listGroups) {
		l.groups = []ign.PasswdGroup{{Name: mark(listGroups)}}
	}
	return l
}

// finish writes the spec's config from its parts, and returns the text that the name's hash is over, in pieces.
func (d *document) finish(rest machineconfig.Config) (hashed [][]byte, err error) {
	rest.Ignition = d.marked().into(rest.Ignition)
	between, err := rest.Spec()
	if err != nil {
		return nil, err
	}
	d.spec = between
	raw, err := d.fill(between.Config.Raw, inJSON)
	if err != nil {
		return nil, err
	}
	d.spec.Config = runtime.RawExtension{Raw: bytes.Join(raw, nil)}
	if !rare(between.Config.Raw) && !rare([]byte(strings.Join(between.KernelArguments, " "))) {
		skeleton, err := yaml.Marshal(between)
		if err != nil {
			return nil, err
		}
		hashed, err = d.fill(skeleton, inYAML)
		if err == nil {
			return hashed, nil
		}
	}
	whole, err := yaml.Marshal(d.spec) // rare, or somebody's text looks like a mark
	return [][]byte{whole}, err
}

var errPlaces = errors.New("the places of the lists in a rendered config are not clear")

// place says where the items of a list go: in place of the mark, which comes after before.
type place struct {
	list, at     int
	before, mark string
}

// inJSON needs no guesses: no text in JSON holds a quote that is not escaped, and no other key of Ignition is named so.
func inJSON(list int) place {
	l := listTable[list]
	return place{list: list, before: `"` + l.name + `":[`, mark: `{"` + l.key + `":"` + mark(list) + `"}`}
}

func inYAML(list int) place {
	return place{list: list, mark: "    - " + listTable[list].key + ": " + mark(list) + "\n"}
}

// fill returns a text in pieces, with the items of each list in the place of its mark.
func (d *document) fill(between []byte, in func(list int) place) (pieces [][]byte, err error) {
	var places []place
	for list := range d.texts {
		if len(d.texts[list]) == 0 {
			continue
		}
		p := in(list)
		found := []byte(p.before + p.mark)
		if p.at = bytes.Index(between, found); p.at < 0 || bytes.Contains(between[p.at+1:], found) {
			return nil, errPlaces
		}
		p.at += len(p.before)
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int { return a.at - b.at })
	done := 0
	for _, p := range places {
		pieces = append(pieces, between[done:p.at])
		for i, t := range d.texts[p.list] {
			switch {
			case p.before == "" && t.yaml == nil:
				return nil, errPlaces
			case p.before == "":
				pieces = append(pieces, t.yaml)
			case i > 0:
				pieces = append(pieces, comma, t.json)
			default:
				pieces = append(pieces, t.json)
			}
		}
		done = p.at + len(p.mark)
	}
	return append(pieces, between[done:]), nil
}

var comma = []byte(",")

// size is the length of the spec as JSON.
func (d *document) size() (int, error) {
	rest := d.spec
	rest.Config = runtime.RawExtension{}
	text, err := json.Marshal(rest) // the config is in it as null; its own JSON is compact and escaped as Marshal does
	if err != nil {
		return 0, err
	}
	if d.spec.Config.Raw == nil {
		return len(text), nil
	}
	return len(text) - len("null") + len(d.spec.Config.Raw), nil
}
