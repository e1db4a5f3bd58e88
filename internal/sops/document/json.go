package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// jsonReader reads JSON with the order of its keys.
type jsonReader struct {
	*json.Decoder
	values int
}

func readJSON(body []byte) ([]Branch, error) {
	r := jsonReader{Decoder: json.NewDecoder(bytes.NewReader(body))}
	r.UseNumber()
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	b, ok := v.(Branch)
	if !ok {
		return nil, errors.New("the file is not an object, and SOPS encrypts only objects")
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has text after its object")
	}
	return []Branch{b}, nil
}

func (r *jsonReader) value(depth int) (any, error) {
	if r.values++; r.values > maxValues || depth > maxDepth {
		return nil, fmt.Errorf("the file has more than %d values, or more than %d levels", maxValues, maxDepth)
	}
	t, err := r.Token()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file ends in the middle of a value")
	}
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return r.list(depth)
		}
		return r.object(depth)
	case json.Number:
		if i, err := t.Int64(); err == nil {
			return int(i), nil
		}
		if !strings.ContainsAny(t.String(), ".eE") {
			return nil, errors.New("a number is too large; write it as a text")
		}
		return t.Float64()
	}
	return t, nil
}

func (r *jsonReader) list(depth int) (any, error) {
	var l []any
	for r.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	_, err := r.Token()
	return l, err
}

func (r *jsonReader) object(depth int) (any, error) {
	var b Branch
	seen := map[string]bool{}
	for r.More() {
		t, err := r.Token()
		if err != nil {
			return nil, err
		}
		key := t.(string) // the decoder accepts only strings here
		if seen[key] {
			return nil, fmt.Errorf("the key %q occurs twice", key)
		}
		seen[key] = true
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		b = append(b, Item{key, v})
	}
	_, err := r.Token()
	return b, err
}

func writeJSON(b Branch) ([]byte, error) {
	var raw, out bytes.Buffer
	if err := appendJSON(&raw, b); err != nil {
		return nil, err
	}
	if err := json.Indent(&out, raw.Bytes(), "", "\t"); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// appendJSON writes a value. JSON has no comments, so it leaves them out.
func appendJSON(out *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case Branch:
		out.WriteByte('{')
		separator := ""
		for _, it := range v {
			key, ok := it.Key.(string)
			if !ok {
				continue
			}
			out.WriteString(separator)
			separator = ","
			if err := appendJSON(out, key); err != nil {
				return err
			}
			out.WriteByte(':')
			if err := appendJSON(out, it.Value); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		separator := ""
		for _, item := range v {
			if _, ok := item.(Comment); ok {
				continue
			}
			out.WriteString(separator)
			separator = ","
			if err := appendJSON(out, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		out.Write(text)
	}
	return nil
}
