package document

import (
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
