package butane

import (
	"reflect"
	"strings"
	"sync"

	"github.com/coreos/vcontext/path"
	"github.com/coreos/vcontext/report"
)

// validator is what a type of Butane or Ignition implements that has something to check.
type validator interface {
	Validate(c path.ContextPath) report.Report
}

// shape is what a walk must know of a type. Documents have thousands of values and few types, and asking a type for its
// fields and their tags costs more than any check.
type shape struct {
	kind reflect.Kind
	// validates: values check themselves.
	validates bool
	// lists: a struct of Ignition's with lists, which may hold a key twice.
	lists bool
	// dead: there is nothing to check in such a value, however deep.
	dead bool
	// elem is what a pointer or a list holds.
	elem *shape
	// members of a struct, those of embedded structs among them.
	members []member
}

type member struct {
	name  string // as the tag has it
	index []int
	shape *shape
}

type shapeKey struct {
	of  reflect.Type
	tag string
}

// shapes is a table of types, filled as they are met. What a type says of itself never changes.
var shapes sync.Map // shapeKey → *shape

// shapeOf looks a type up, with its members' names as the tag has them.
func shapeOf(of reflect.Type, tag string) *shape {
	key := shapeKey{of, tag}
	if s, ok := shapes.Load(key); ok {
		return s.(*shape)
	}
	s := newShape(of, tag)
	shapes.Store(key, s)
	return s
}

// newShape reads a type. None of Butane's and Ignition's contains itself.
func newShape(of reflect.Type, tag string) *shape {
	s := &shape{kind: of.Kind()}
	s.validates = s.kind != reflect.Pointer && of.Implements(reflect.TypeFor[validator]())
	switch s.kind {
	case reflect.Pointer, reflect.Slice:
		s.elem = shapeOf(of.Elem(), tag)
	case reflect.Struct:
		s.members = membersOf(of, tag, nil)
	}
	s.dead = !s.validates && (s.elem == nil || s.elem.dead)
	for _, m := range s.members {
		s.lists = s.lists || tag == jsonTag && m.shape.kind == reflect.Slice
		s.dead = s.dead && m.shape.dead
	}
	s.dead = s.dead && !s.lists
	return s
}

// membersOf takes embedded structs apart: their fields count as the outer one's, and their own check does not count.
func membersOf(of reflect.Type, tag string, outer []int) []member {
	var out []member
	for i := range of.NumField() {
		f := of.Field(i)
		index := append(append([]int(nil), outer...), i)
		if f.Anonymous {
			out = append(out, membersOf(f.Type, tag, index)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
		out = append(out, member{name, index, shapeOf(f.Type, tag)})
	}
	return out
}
