package main

import (
	"os"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/tools/linked"
)

func TestJudge(t *testing.T) {
	text, err := os.ReadFile("../licence/texts/MIT.txt")
	if err != nil {
		t.Fatal(err)
	}
	mit, odd := string(text), "You may use this on Sundays."
	files := func(f ...linked.File) map[string]linked.Module {
		return map[string]linked.Module{"m": {Path: "example.org/m", Version: "v1.2.3", Files: f}}
	}
	for name, test := range map[string]struct {
		modules map[string]linked.Module
		reviews []review
		want    string // the counts, or the errors
	}{
		"a known licence in the root is allowed":                   {files(linked.File{Name: "LICENSE", Text: mit}), nil, "MIT 1"},
		"a notice is not judged":                                   {files(linked.File{Name: "LICENSE", Text: mit}, linked.File{Name: "NOTICE", Text: odd}), nil, "MIT 1"},
		"an unknown licence fails by name":                         {files(linked.File{Name: "LICENSE", Text: odd}), nil, "example.org/m v1.2.3: LICENSE is no known licence"},
		"an unknown licence beside a known one fails":              {files(linked.File{Name: "LICENSE", Text: mit}, linked.File{Name: "COPYING.old", Text: odd}), nil, "COPYING.old is no known licence"},
		"an unknown licence of a directory with linked code fails": {files(linked.File{Name: "LICENSE", Text: mit}, linked.File{Name: "x/LICENSE", Text: odd}), nil, "x/LICENSE is no known licence"},
		"a module without a licence fails":                         {files(), nil, "its root has no licence"},
		"a licence of a directory is none of the root":             {files(linked.File{Name: "x/LICENSE", Text: mit}), nil, "its root has no licence"},
		"a reviewed text is allowed":                               {files(linked.File{Name: "LICENSE", Text: odd}), []review{{Module: "example.org/m", File: "LICENSE", Digest: digest(odd), Licences: []string{"ISC"}}}, "ISC 1"},
		"a reviewed text that changed fails":                       {files(linked.File{Name: "LICENSE", Text: odd + "!"}), []review{{Module: "example.org/m", File: "LICENSE", Digest: digest(odd), Licences: []string{"ISC"}}}, "LICENSE is no known licence"},
		"a reviewed text of another module fails":                  {files(linked.File{Name: "LICENSE", Text: odd}), []review{{Module: "example.org/n", File: "LICENSE", Digest: digest(odd), Licences: []string{"ISC"}}}, "LICENSE is no known licence"},
		"a reviewed module without a licence is allowed":           {files(), []review{{Module: "example.org/m", Licences: []string{"MIT"}}}, "MIT 1"},
		"a review does not allow every licence":                    {files(), []review{{Module: "example.org/m", Licences: []string{"AGPL-3.0-only"}}}, "licence AGPL-3.0-only is not allowed"},
		"a review that nothing needs fails":                        {files(linked.File{Name: "LICENSE", Text: mit}), []review{{Module: "example.org/m"}}, "is not needed any more"},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := newJudge(test.reviews)
			if err != nil {
				t.Fatal(err)
			}
			got, err := j.count(test.modules)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) || err == nil && got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestReviewsHaveReasons(t *testing.T) {
	for _, r := range reviewed {
		if len(strings.Fields(r.Because)) < 4 {
			t.Errorf("%s %s: the review has no reason: %q", r.Module, r.File, r.Because)
		}
	}
	for id, because := range allowed {
		if len(strings.Fields(because)) < 3 {
			t.Errorf("%s is allowed without a reason", id)
		}
	}
}
