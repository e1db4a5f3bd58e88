package document

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gopkg.in/ini.v1"
)

func readDotenv(body []byte) ([]Branch, error) {
	var b Branch
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

var iniOptions = ini.LoadOptions{AllowNonUniqueSections: true}

func readINI(body []byte) ([]Branch, error) {
	f, err := ini.LoadSources(iniOptions, body)
	if err != nil {
		return nil, errors.New("it is not valid INI") // the library's text repeats the line, which may be a secret
	}
	var b Branch
	values := 0
	for _, s := range f.Sections() {
		section := Branch{}
		if s.Comment != "" {
			section = append(section, Item{Comment{Text: iniComment(s.Comment)}, nil})
		}
		for _, k := range s.Keys() {
			section = append(section, Item{k.Name(), k.Value()})
			if k.Comment != "" {
				section = append(section, Item{Comment{Text: iniComment(k.Comment)}, nil})
			}
		}
		if values += len(section); values > maxValues {
			return nil, fmt.Errorf("the file has more than %d values", maxValues)
		}
		b = append(b, Item{s.Name(), section})
	}
	return []Branch{b}, nil
}

func iniComment(text string) string {
	switch {
	case strings.HasPrefix(text, ";"):
		return strings.TrimLeft(text, "; ")
	case strings.HasPrefix(text, "#"):
		return strings.TrimLeft(text, "# ")
	}
	return text
}

func writeINI(b Branch) ([]byte, error) {
	f := ini.Empty(iniOptions)
	f.DeleteSection(ini.DefaultSection)
	for _, it := range b {
		name, ok := it.Key.(string)
		items, isSection := it.Value.(Branch)
		if !ok || !isSection {
			return nil, errors.New("a file in INI has sections at its top, and nothing else")
		}
		section, err := f.NewSection(name)
		if err != nil {
			return nil, err
		}
		if err := writeSection(section, items); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	_, err := f.WriteTo(&out)
	return out.Bytes(), err
}

func writeSection(section *ini.Section, items Branch) error {
	var last *ini.Key
	for i, it := range items {
		c, isComment := it.Key.(Comment)
		switch {
		case isComment && i == 0:
			section.Comment = c.Text
		case isComment && last != nil:
			last.Comment = c.Text
		case !isComment:
			text, err := flatText(it.Value)
			if err != nil {
				return err
			}
			if last, err = section.NewKey(it.Key.(string), text); err != nil {
				return errors.New("a key is not valid in INI")
			}
		}
	}
	return nil
}
