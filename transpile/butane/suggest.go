package butane

import (
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/unit"
)

// suggest returns what the user should write instead of an unknown key. The parameter here is the type that lacks the
// key.
func (d dialect) suggest(at, typo string, here reflect.Type) string {
	if at == "$.ignition" && typo == "version" {
		return "; remove it: the version at the top of the document decides"
	}
	if instead := message.LeftOver(typo); instead != "" {
		return "; " + instead
	}
	if since := d.knownFrom(at, typo); since != "" {
		return "; it is known from " + d.variant + " " + since + " on"
	}
	if best := message.Closest(typo, keysIn(here)); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	keys := map[string]bool{}
	allKeys(reflect.TypeOf(d.config()), keys)
	switch best := message.Closest(typo, slices.Sorted(maps.Keys(keys))); best {
	case "":
		return "; check its spelling and its indentation"
	case typo:
		return "; it belongs elsewhere, check its indentation"
	default:
		return fmt.Sprintf("; did you mean %q? It belongs elsewhere, so check the indentation too", best)
	}
}

// allKeys adds to a set the keys of a type and of the types of its fields.
func allKeys(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		allKeys(t.Elem(), keys)
	case reflect.Struct:
		for _, f := range fieldsOf(t) {
			keys[keyOf(f)] = true
			allKeys(f.Type, keys)
		}
	}
}

// knownFrom returns the first later version of the variant that has a key at a path, or "".
func (d dialect) knownFrom(at, key string) string {
	later := false
	for _, other := range dialects {
		if other.variant != d.variant {
			continue
		}
		if later {
			if here := other.typeAt(at); here != nil && here.Kind() == reflect.Struct && slices.Contains(keysIn(here),
				key) {
				return other.version
			}
		}
		later = later || other.version == d.version
	}
	return ""
}

// typeAt returns the type of the value at a path of a document of this dialect, or nil.
func (d dialect) typeAt(at string) reflect.Type {
	t := elem(reflect.TypeOf(d.config()), false)
	for _, key := range strings.Split(at, ".")[1:] {
		if _, err := strconv.Atoi(key); err == nil && t.Kind() == reflect.Slice {
			t = elem(t.Elem(), false)
			continue
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		f, ok := fieldOf(t, key)
		if !ok {
			return nil
		}
		t = elem(f.Type, false)
	}
	return t
}

var cannotUnmarshal = regexp.MustCompile("^cannot unmarshal !!([a-z]+) (?s:.*)into ([^ ]+)$")

// mistyped says which type a value at a path must have. mistyped does not quote the value.
func (d dialect) mistyped(at, text string) string {
	m := cannotUnmarshal.FindStringSubmatch(text)
	t := d.typeAt(at)
	if m == nil {
		return text
	}
	key := at[strings.LastIndexByte(at, '.')+1:]
	if _, err := strconv.Atoi(key); err == nil {
		key = "an item of this list"
	}
	is := map[string]string{
		"str": "a text", "int": "a number", "float": "a number", "bool": "true or false",
		"seq": "a list", "map": "a mapping", "timestamp": "a date",
	}[m[1]]
	if t == nil || m[1] == "seq" && t.Kind() == reflect.Slice {
		return fmt.Sprintf("%s stands here, and another kind of value belongs here: compare the document with its "+
			"specification", is)
	}
	switch t.Kind() {
	case reflect.Int:
		if strings.HasSuffix(key, "mode") {
			return fmt.Sprintf("%s is a number, and this is %s: write it like 0644, without quotes", key, is)
		}
		return fmt.Sprintf("%s is a number, and this is %s: write the digits without quotes", key, is)
	case reflect.Bool:
		return fmt.Sprintf("%s is true or false, and this is %s", key, is)
	case reflect.Slice:
		return fmt.Sprintf("%s is a list, and this is %s: begin each item with `- `", key, is)
	case reflect.Struct:
		return fmt.Sprintf("%s is a mapping, and this is %s: write its keys below it: %s", key, is,
			strings.Join(keysIn(t), ", "))
	default:
		return fmt.Sprintf("%s is a text, and this is %s: put it in quotation marks", key, is)
	}
}

// blockLine returns the position in the repository of one line of a text. The parameter at is the position where the
// text begins.
func (t *translator) blockLine(at origin.Pos, text string, line int) origin.Pos {
	lines, known := t.lines[at.File]
	if !known && t.in.FS != nil {
		if src, err := fs.ReadFile(t.in.FS, at.File); err == nil {
			lines = strings.Split(string(src), "\n")
		}
		t.lines[at.File] = lines
	}
	return unit.Place(lines, at, text, line)
}

// fieldsOf lists the fields of a struct, including those of embedded structs.
func fieldsOf(t reflect.Type) []reflect.StructField {
	var out []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous {
			out = append(out, f)
		}
	}
	return out
}

// keyOf returns the name that a field has in a document.
func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return key
}

// fieldOf returns the field of a struct for a key of a document.
func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for _, f := range fieldsOf(t) {
		if keyOf(f) == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// keysIn lists the keys that a document may use for a struct.
func keysIn(t reflect.Type) []string {
	var out []string
	for _, f := range fieldsOf(t) {
		out = append(out, keyOf(f))
	}
	return out
}

// elem removes pointers from a type. If lists is true, elem also replaces a list by the type of its items.
func elem(t reflect.Type, lists bool) reflect.Type {
	for t.Kind() == reflect.Pointer || lists && t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}
