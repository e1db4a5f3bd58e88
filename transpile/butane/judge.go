package butane

import (
	"reflect"

	ignvalidate "github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/path"
	"github.com/coreos/vcontext/report"
)

// Tags name the fields of Butane's types and of Ignition's.
const (
	yamlTag = "yaml"
	jsonTag = "json"
)

// judge asks every value that checks itself, and every list for keys that stand twice: what vcontext and Ignition do in
// a walk each, in one. The result is the same, in another order.
type judge struct {
	tag  string
	path []any
	rep  report.Report
}

// verdict judges a document (yamlTag) or what it was translated to (jsonTag).
func verdict(thing any, tag string) report.Report {
	j := &judge{tag: tag, path: make([]any, 0, 12)}
	v := reflect.ValueOf(thing)
	j.value(v, shapeOf(v.Type(), tag))
	return j.rep
}

// context is the path to the value in hand. Whatever is appended to it gets memory of its own.
func (j *judge) context() path.ContextPath {
	return path.ContextPath{Tag: j.tag, Path: j.path[:len(j.path):len(j.path)]}
}

func (j *judge) value(v reflect.Value, s *shape) {
	if s.dead {
		return
	}
	if s.validates {
		j.rep.Merge(v.Interface().(validator).Validate(j.context()))
	}
	switch s.kind {
	case reflect.Pointer:
		if !v.IsNil() {
			j.value(v.Elem(), s.elem)
		}
	case reflect.Slice:
		for i := 0; i < v.Len() && !s.elem.dead; i++ {
			j.step(i, v.Index(i), s.elem)
		}
	case reflect.Struct:
		items := 0
		for i := range s.members {
			m := &s.members[i]
			if m.shape.dead && !s.lists {
				continue
			}
			f := v.FieldByIndex(m.index)
			if m.shape.kind == reflect.Slice {
				items += f.Len()
			}
			j.step(m.name, f, m.shape)
		}
		if s.lists && items > 1 { // over all lists: files and links share their paths
			j.rep.Merge(ignvalidate.ValidateDups(v, j.context()))
		}
	}
}

// step goes one step down the path.
func (j *judge) step(name any, v reflect.Value, s *shape) {
	if s.dead {
		return
	}
	j.path = append(j.path, name)
	j.value(v, s)
	j.path = j.path[:len(j.path)-1]
}
