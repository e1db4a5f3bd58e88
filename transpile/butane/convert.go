package butane

import (
	"fmt"
	"reflect"
)

// convert copies a value of one version's type into another version's: fields by their names, a pointer and what it
// points to into each other, an empty list as none. Ignition's versions differ in no more than that, as one reads the
// JSON of the other. A field that is set and that the other version lacks is an error of this program: it panics.
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
