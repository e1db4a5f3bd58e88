package butane

import (
	"reflect"
	"strings"
)

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

// elem removes pointers from a type. If lists is true, elem also replaces a list by the type of its items.
func elem(t reflect.Type, lists bool) reflect.Type {
	for t.Kind() == reflect.Pointer || lists && t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}
