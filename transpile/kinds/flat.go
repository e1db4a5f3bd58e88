package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"go.yaml.in/yaml/v3"
)

// flat is a config as JSON with each value on its own line, so that the line in a parser's error identifies the path.
type flat struct {
	json  []byte
	paths []string // paths has the path of the value that begins in each line.
}

// at returns the path of the value in a line, counted from 1.
func (f flat) at(line int) string {
	if line < 1 || line > len(f.paths) {
		return "$"
	}
	return f.paths[line-1]
}

// atOffset returns the path of the value that a decoder read last.
func (f flat) atOffset(offset int64) string {
	end := min(max(int(offset)-1, 0), len(f.json))
	return f.at(bytes.Count(f.json[:end], []byte("\n")) + 1)
}

// textAt returns a function that returns the string at a path, or "". The returned function parses the config when it
// is called for the first time.
func (f flat) textAt() func(at string) string {
	index := sync.OnceValue(func() map[string][]byte {
		lines := bytes.Split(f.json, []byte("\n"))
		out := make(map[string][]byte, len(lines))
		for i, at := range f.paths {
			// Only the first line with a path counts, because the line of a closing bracket has the same path.
			if _, known := out[at]; !known {
				out[at] = bytes.TrimSuffix(lines[i], []byte(","))
			}
		}
		return out
	})
	return func(at string) string {
		line := index()[at]
		var text string
		if json.Unmarshal(line, &text) == nil {
			return text
		}
		member := map[string]json.RawMessage{}
		if json.Unmarshal(append(append([]byte("{"), line...), '}'), &member) != nil {
			return ""
		}
		for _, v := range member {
			_ = json.Unmarshal(v, &text) // The text stays "" for a value that is not a string.
		}
		return text
	}
}

// decode reads a document. A document is JSON, or YAML if an overlay patched it.
func decode(source []byte) (any, error) {
	var v any
	if json.Valid(source) {
		d := json.NewDecoder(bytes.NewReader(source))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
		return v, nil
	}
	if err := yaml.Unmarshal(source, &v); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	return v, nil
}

// maxDepth is the limit for nested values. Configs of all versions have fewer levels.
const maxDepth = 50

// flatten writes a decoded document as JSON. The error of flatten names the value that JSON cannot express.
func flatten(v any) (flat, error) {
	f := flat{paths: []string{"$"}}
	err := f.value(v, "$", 0)
	f.json = append(f.json, '\n')
	return f, err
}

// value writes v. The caller has already recorded the path of the line in which v begins.
func (f *flat) value(v any, at string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%.100s… is nested more than %d levels deep", at, maxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		f.json = append(f.json, '{')
		for i, k := range keys {
			name, err := json.Marshal(k)
			if err != nil {
				return fmt.Errorf("writing %s: %w", at, err)
			}
			f.line(at+"."+k, i > 0)
			f.json = append(append(f.json, name...), ':')
			if err := f.value(v[k], at+"."+k, depth+1); err != nil {
				return err
			}
		}
		f.line(at, false)
		f.json = append(f.json, '}')
	case []any:
		f.json = append(f.json, '[')
		for i, item := range v {
			child := at + "." + strconv.Itoa(i)
			f.line(child, i > 0)
			if err := f.value(item, child, depth+1); err != nil {
				return err
			}
		}
		f.line(at, false)
		f.json = append(f.json, ']')
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("%s has no form in JSON: %w", at, err)
		}
		f.json = append(f.json, raw...)
	}
	return nil
}

// line begins a new line for the value at a path.
func (f *flat) line(at string, comma bool) {
	if comma {
		f.json = append(f.json, ',')
	}
	f.json = append(f.json, '\n')
	f.paths = append(f.paths, at)
}
