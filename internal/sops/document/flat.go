package document

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

func readDotenv(body []byte) ([]Branch, error) {
	var b Branch
	seen := map[string]bool{}
	for i, line := range strings.Split(string(body), "\n") {
		if line == "" {
			continue
		}
		if line[0] == '#' {
			b = append(b, Item{Comment{Text: line[1:]}, nil})
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("line %d has no `=`", i+1) // not the line: it may be a secret
		}
		if seen[key] {
			return nil, fmt.Errorf("line %d: the key %q occurs twice", i+1, key)
		}
		seen[key] = true
		b = append(b, Item{key, strings.ReplaceAll(value, `\n`, "\n")})
	}
	if len(b) > maxValues {
		return nil, fmt.Errorf("the file has more than %d values", maxValues)
	}
	return []Branch{b}, nil
}

func writeDotenv(b Branch) ([]byte, error) {
	var out bytes.Buffer
	for _, it := range b {
		switch key := it.Key.(type) {
		case Comment:
			fmt.Fprintf(&out, "#%s\n", key.Text)
		default:
			text, err := flatText(it.Value)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "%s=%s\n", key, strings.ReplaceAll(text, "\n", `\n`))
		}
	}
	return out.Bytes(), nil
}

// flatText returns a value as text, as SOPS writes it in formats that have strings only.
func flatText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case time.Time:
		return v.Format(time.RFC3339), nil
	case float64:
		text := strconv.FormatFloat(v, 'G', -1, 64)
		if !strings.ContainsAny(text, ".E") {
			text = strconv.FormatFloat(v, 'f', 1, 64)
		}
		return text, nil
	}
	return "", errors.New("this format has no lists, mappings or empty values")
}
