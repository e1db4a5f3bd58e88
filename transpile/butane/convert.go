package butane

import (
	"fmt"
	"reflect"
)

// convert copies a value into the matching type of another Ignition version. convert matches fields by name, converts
// between a value and a pointer to it, and turns an empty list into nil. The versions of Ignition's types differ in
// nothing else. (Ignition translates 3.4 to 3.5 itself, but drops the advertisement of a Tang server.) convert panics
// if a field is set that the other version lacks.
func convert(to, from reflect.Value) {
	switch {
	case from.Kind() == reflect.Pointer:
		if !from.IsNil() {
			convert(to, from.Elem())
		}
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		convert(to.Elem(), from)
	case from.Kind() == reflect.Slice:
		if from.Len() == 0 {
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			convert(to.Index(i), from.Index(i))
		}
	case from.Kind() == reflect.Struct:
		convertFields(to, from)
	default:
		to.Set(from.Convert(to.Type()))
	}
}

func convertFields(to, from reflect.Value) {
	same := to.Type() == from.Type()
	for i := range from.NumField() {
		f := from.Field(i)
		switch {
		case same:
			convert(to.Field(i), f)
		case f.Kind() == reflect.Pointer && f.IsNil():
		default:
			name := from.Type().Field(i).Name
			t := to.FieldByName(name)
			if !t.IsValid() {
				if f.IsZero() {
					continue
				}
				panic(fmt.Sprintf("%s has no %s", to.Type(), name))
			}
			convert(t, f)
		}
	}
}
