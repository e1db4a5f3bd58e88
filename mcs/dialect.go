package mcs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v30 "github.com/coreos/ignition/v2/config/v3_0"
	v31 "github.com/coreos/ignition/v2/config/v3_1"
	v32 "github.com/coreos/ignition/v2/config/v3_2"
	v33 "github.com/coreos/ignition/v2/config/v3_3"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	v35 "github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/vcontext/report"
)

// dialect is one version of Ignition's spec. Versions of 3.x only add words, so a config of the newest says the same in
// an older one as long as that one's own types know all its words and its parser accepts all its values. That is what
// say tests, instead of translating step by step. Version 2.2.0 has other shapes: see translation.
type dialect struct {
	version Version
	// kernelArguments tells whether the version has kernelArguments.
	kernelArguments bool
	// specialModes tells whether setuid, setgid and sticky bits are kept; older versions parse them and drop them.
	specialModes bool
	// zippedData tells whether whoever reads the version unpacks a data: URL; Ignition did not before 2.3.
	zippedData bool
	// recode decodes into the version's own types and encodes again, which loses what these do not know.
	recode func([]byte) ([]byte, error)
	// parse is the version's own parser.
	parse func([]byte) (report.Report, error)
}

// dialects has every version, oldest first.
var dialects = []dialect{
	{version: V2_2}, // see sayOld
	{V3_0, false, false, false, recode(v30.Parse), parse(v30.Parse)},
	{V3_1, false, false, true, recode(v31.Parse), parse(v31.Parse)},
	{V3_2, false, false, true, recode(v32.Parse), parse(v32.Parse)},
	{V3_3, true, false, true, recode(v33.Parse), parse(v33.Parse)},
	{V3_4, true, true, true, recode(v34.Parse), parse(v34.Parse)},
	{V3_5, true, true, true, recode(v35.Parse), parse(v35.Parse)},
}

func dialectOf(v Version) (dialect, bool) {
	i := slices.IndexFunc(dialects, func(d dialect) bool { return d.version == v })
	if i < 0 {
		return dialect{}, false
	}
	return dialects[i], true
}

type parser[T any] func([]byte) (T, report.Report, error)

func recode[T any](parser[T]) func([]byte) ([]byte, error) {
	return func(raw []byte) ([]byte, error) {
		var config T
		if err := json.Unmarshal(raw, &config); err != nil {
			return nil, err
		}
		return json.Marshal(config)
	}
}

func parse[T any](p parser[T]) func([]byte) (report.Report, error) {
	return func(raw []byte) (report.Report, error) {
		_, rpt, err := p(raw)
		return rpt, err
	}
}

// say writes a valid config of the newest version in this one. It returns the fields that this version has no words
// for, if there are any.
func (d dialect) say(newest []byte) (body []byte, unsayable []string, err error) {
	if d.version == Newest {
		return newest, nil, nil
	}
	config, err := tree(newest)
	if err != nil {
		return nil, nil, err
	}
	if d.version == V2_2 {
		return sayOld(config)
	}
	kept, err := d.recode(newest)
	if err != nil {
		return nil, nil, err
	}
	known, err := tree(kept)
	if err != nil {
		return nil, nil, err
	}
	unsayable = lost("", config, known)
	if !d.specialModes {
		unsayable = append(unsayable, specialModes(config)...)
	}
	if len(unsayable) > 0 {
		return nil, unsayable, nil
	}
	if head, ok := config["ignition"].(map[string]any); ok {
		head["version"] = string(d.version)
	}
	if body, err = json.Marshal(config); err != nil {
		return nil, nil, err
	}
	unsayable, err = d.refused(body, config)
	return body, unsayable, err
}

// refused asks the version's own parser, which knows the values that an older Ignition does not take, such as a URL's scheme.
func (d dialect) refused(body []byte, config map[string]any) ([]string, error) {
	rpt, err := d.parse(body)
	if err == nil {
		return nil, nil
	}
	var fields []string
	for _, e := range rpt.Entries {
		if e.Kind.IsFatal() {
			fields = append(fields, fmt.Sprintf("%s (%s)", place(config, e.Context.Path), e.Message))
		}
	}
	if len(fields) > 0 {
		return fields, nil
	}
	return nil, err
}

func tree(raw []byte) (map[string]any, error) {
	var t map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // an int64 survives
	err := dec.Decode(&t)
	return t, err
}

// defaults are the values of younger fields that mean the same as leaving the field out, by the end of their path.
var defaults = []struct {
	end   string
	value bool
}{
	{"].shouldExist", true},         // passwd, since 3.2: users and groups exist; partitions, since 3.0
	{"].wipePartitionEntry", false}, // partitions, since 3.0
	{"].resize", false},             // partitions, since 3.2
	{"].discard", false},            // luks, since 3.4
	{".cex.enabled", false},         // luks, since 3.5
}

// lost names the fields of config that known lacks, and removes from config those that say nothing but the default.
func lost(at string, config, known any) []string {
	var fields []string
	switch config := config.(type) {
	case map[string]any:
		other, _ := known.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(config)) {
			fields = append(fields, lostField(join(at, key), config, key, other)...)
		}
	case []any:
		other, _ := known.([]any)
		for i, item := range config {
			var match any
			if i < len(other) {
				match = other[i]
			}
			fields = append(fields, lost(at+"["+label(item, i)+"]", item, match)...)
		}
	default:
		if known == nil && config != nil {
			return []string{at}
		}
	}
	return fields
}

// lostField judges one field. A list that is missing as a whole is named once, a struct by its fields.
func lostField(at string, config map[string]any, key string, known map[string]any) []string {
	if other, ok := known[key]; ok {
		return lost(at, config[key], other)
	}
	for _, d := range defaults {
		if strings.HasSuffix(at, d.end) && config[key] == d.value {
			delete(config, key)
			return nil
		}
	}
	fields := lost(at, config[key], nil)
	if len(fields) == 0 {
		delete(config, key)
	}
	if _, list := config[key].([]any); list && len(fields) > 0 {
		return []string{at}
	}
	return fields
}

// specialModes names the files and directories with setuid, setgid or sticky bits.
func specialModes(config map[string]any) []string {
	var fields []string
	storage, _ := config["storage"].(map[string]any)
	for _, kind := range []string{"directories", "files"} {
		nodes, _ := storage[kind].([]any)
		for i, node := range nodes {
			n, _ := node.(map[string]any)
			number, _ := n["mode"].(json.Number)
			if mode, err := number.Int64(); err == nil && mode&0o7000 != 0 {
				fields = append(fields, fmt.Sprintf("storage.%s[%s].mode %#o", kind, label(node, i), mode))
			}
		}
	}
	return fields
}

// place writes a path of a parser's report the way lost does.
func place(config any, path []any) string {
	at := ""
	for _, step := range path {
		switch step := step.(type) {
		case int:
			list, _ := config.([]any)
			config = nil
			if step < len(list) {
				config = list[step]
			}
			at += "[" + label(config, step) + "]"
		default:
			key := fmt.Sprint(step)
			fields, _ := config.(map[string]any)
			config = fields[key]
			at = join(at, key)
		}
	}
	return at
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// label is what a person calls an item of a list: its path, name or device, else its index.
func label(item any, index int) string {
	fields, _ := item.(map[string]any)
	for _, key := range []string{"path", "name", "device"} {
		if text, ok := fields[key].(string); ok && text != "" {
			return text
		}
	}
	return fmt.Sprint(index)
}
