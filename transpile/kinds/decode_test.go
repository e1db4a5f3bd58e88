package kinds_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

type thing struct {
	Name  string             `json:"name"`
	Spec  struct{ Size int } `json:"spec"`
	Times map[string]string  `json:"times"`
	Every metav1.Duration    `json:"every"`
	Inner `json:",inline"`
	More  []metav1.LabelSelector `json:"more"`
}

// Inner has fields of its own in Go, and none in a document.
type Inner struct {
	Pools   []string `json:"pools"`
	Windows []struct {
		Duration metav1.Duration `json:"duration"`
	} `json:"windows"`
}

func TestDecodeSaysWhichFieldIsWrong(t *testing.T) {
	there := origin.Pos{File: "a.yaml", Line: 7}
	for _, c := range []struct{ sentence, source, path, want string }{
		{"an unknown field", "nam: a\n", "$.spec.x.nam", `unknown field "nam": a thing has none of that name`},
		{"an unknown field of an item", "more: [{matchlabels: {}}]\n", "$.spec.x.more.0.matchlabels", `unknown field "more.0.matchlabels"`},
		{"a number for a text", "name: 5\n", "$.spec.x.name", "name is a number here and should be a text; put it in quotes"},
		{"a time that is none", "name: a\nevery: soon\n", "$.spec.x.every", "not a thing: "},
		{"a text for a list, below a struct that a document does not see", "pools: a\n", "$.spec.x.pools", "not a thing: pools is a text here and should be a list; put it in brackets"},
		{"a duration with a space", "windows: [{duration: 1h}, {duration: 1 hour}]\n", "$.spec.x.windows.1.duration", "windows[1].duration: unknown unit \" hour\" in duration \"1 hour\"; write 1h, 30m or 1h30m"},
		{"a map's value", "times: {a: x, b: [1]}\n", "$.spec.x.times.b", "times.b is a list here"},
	} {
		o, err := kinds.ReadObject([]byte(c.source))
		if err != nil {
			t.Fatal(err)
		}
		places := origin.Map{At: map[string]origin.Pos{"$": {File: "a.yaml", Line: 1}, c.path: there}}
		found := kinds.ObjectPart{Object: o, Path: "$.spec.x", Places: places, What: "thing"}.Decode(&thing{})
		if len(found) != 1 || found[0].At != there || !strings.Contains(found[0].Message, c.want) {
			t.Errorf("%s: %+v, want %q at %s", c.sentence, found, c.want, there)
		}
	}
	several, err := kinds.ReadObject([]byte("every: soon\nname: 5\nspec: {Size: x}\ntimes: {a: b}\n"))
	if err != nil {
		t.Fatal(err)
	}
	found := kinds.ObjectPart{Object: several, Path: "$", What: "thing"}.Decode(&thing{})
	if len(found) != 3 || !strings.Contains(found[0].Message, "soon") || !strings.Contains(found[1].Message,
		"name is a number") || !strings.Contains(found[2].Message, "spec.Size is a text") {
		t.Errorf("not all is said at once: %+v", found)
	}
	o, err := kinds.ReadObject([]byte("name: a\nevery: 5s\n"))
	if err != nil {
		t.Fatal(err)
	}
	var into thing
	if found := (kinds.ObjectPart{Object: o, Path: "$", What: "thing"}).Decode(&into); found != nil ||
		into.Name != "a" ||
		into.Every.Seconds() != 5 {
		t.Errorf("got %+v, %v", into, found)
	}
	if _, err := kinds.ReadObject([]byte("- a\n")); err == nil {
		t.Error("a list is an object")
	}
}
