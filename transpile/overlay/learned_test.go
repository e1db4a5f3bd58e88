package overlay

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// A builder that learned what another one found out says the same of the same repository, and builds nothing that its
// caller knows; what its caller does not know it builds as if it had learned nothing.
func TestABuilderThatLearnedSaysTheSame(t *testing.T) {
	warned, removed := 0, 0
	for seed := range *cases {
		r := &random{Rand: rand.New(rand.NewPCG(uint64(seed), 9)), repo: fstest.MapFS{}}
		r.layer("o", 2)
		teacher := new(Builder)
		want, found := teacher.Build(r.repo, "o")
		if origin.Fatal(found) {
			continue
		}
		warned += len(found)
		removed += len(want.Keys) - len(want.Documents)
		raw, err := teacher.Learned(want)
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{}
		for _, d := range want.Documents {
			known[d.Key] = true
		}
		anew := 0
		pupil := &Builder{before: func(string) { anew++ }}
		pupil.Learn(raw)
		got, again := pupil.BuildKnowing(r.repo, "o", known)
		if anew > 0 {
			t.Errorf("seed %d: %d documents are built anew", seed, anew)
		}
		if diff := cmp.Diff(found, again); diff != "" {
			t.Errorf("seed %d: findings (-teacher +pupil):\n%s", seed, diff)
		}
		if diff := cmp.Diff(briefly(want), briefly(got)); diff != "" {
			t.Errorf("seed %d (-teacher +pupil):\n%s", seed, diff)
		}
		handed, err := pupil.Learned(got)
		if err != nil || string(handed) != string(raw) {
			t.Errorf("seed %d: %v, what was learned is handed on as\n%s\nand was\n%s", seed, err, handed, raw)
		}
		got, again = pupil.Build(r.repo, "o")
		got.Parsed = want.Parsed // what a build had to parse is no part of what it says
		if diff := cmp.Diff(want, got) + cmp.Diff(found, again); diff != "" {
			t.Errorf("seed %d, whole (-teacher +pupil):\n%s", seed, diff)
		}
		if t.Failed() {
			t.Fatal(dump(r.repo))
		}
	}
	if warned == 0 || removed == 0 {
		t.Errorf("%d warnings and %d deleted documents are too few to tell", warned, removed)
	}
}

// briefly leaves out what a pupil need not know.
func briefly(r Result) Result {
	out := Result{Reads: r.Reads, Keys: r.Keys}
	for _, d := range r.Documents {
		d.Source, d.Origin = nil, origin.Map{}
		out.Documents = append(out.Documents, d)
	}
	return out
}

func TestABuilderPassesOverWhatItCannotLearn(t *testing.T) {
	repo := repository("o/a.bu", butaneHead)
	m := new(Builder)
	for _, raw := range []string{"", "{", "[]", `{"Files":[{"Key":"x","Kind":"Nonsense"}],"Documents":[{}]}`} {
		m.Learn([]byte(raw))
	}
	want, _ := Build(repo, "o")
	got, found := m.Build(repo, "o")
	if diff := cmp.Diff(want.Documents, got.Documents); diff != "" || len(found) > 0 {
		t.Errorf("%v (-want +got):\n%s", found, diff)
	}
}

// A field that is new here must be written down too, or be left out on purpose.
func TestEverythingIsLearned(t *testing.T) {
	for of, want := range map[reflect.Type]int{reflect.TypeFor[declared](): 8, reflect.TypeFor[built](): 5, reflect.TypeFor[fact](): 5} {
		if got := of.NumField(); got != want {
			t.Errorf("%s has %d fields and had %d: bring Learned and Learn up to date, then this number", of, got, want)
		}
	}
}
