package review_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/review"
)

// seen leaves out what no reader of a comparison sees.
var seen = cmpopts.IgnoreUnexported(review.Comparison{}, review.Warning{})

// board is a shelf in memory.
type board map[string][]byte

// Get is transpile.Shelf's.
func (b board) Get(key string) ([]byte, bool) { v, ok := b[key]; return v, ok }

// Put is transpile.Shelf's.
func (b board) Put(key string, value []byte) { b[key] = value }

// comparedBy is a comparison of a repository with itself after so many documents changed, by a process with that shelf.
func comparedBy(t *testing.T, shelf board, changed int) review.Comparison {
	t.Helper()
	r := &review.Renderings{}
	if shelf != nil {
		r.Transpiler.Shelf = shelf
	}
	base, head := r.Transpiler.Fragments(large(0, "0")), r.Transpiler.Fragments(large(changed, "1"))
	was, is := r.Pair(base, head)
	if was.Err != nil || is.Err != nil {
		t.Fatal(was.Err, is.Err)
	}
	return review.Compare(was.Side("base"), is.Side("head"), policy.Default())
}

func TestAPairIsComparedTheSameWithAndWithoutAShelf(t *testing.T) {
	shelf := board{}
	for _, changed := range []int{0, 1, 25, 0, 25, 200} {
		want := comparedBy(t, nil, changed)
		for _, run := range []string{"first", "second"} {
			if d := cmp.Diff(want, comparedBy(t, shelf, changed), seen); d != "" {
				t.Fatalf("%d documents, %s run:\n%s", changed, run, d)
			}
		}
	}
}

func TestADamagedNameIsNotTaken(t *testing.T) {
	shelf := board{}
	want := comparedBy(t, shelf, 1)
	for key, value := range maps.Clone(shelf) {
		if strings.HasPrefix(key, "rendered ") {
			shelf[key] = []byte(strings.Replace(string(value), "rendered-", "rendered-x", 1))
		}
	}
	if d := cmp.Diff(want, comparedBy(t, shelf, 1), seen); d != "" {
		t.Error(d)
	}
}
