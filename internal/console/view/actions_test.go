package view_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/console/view"
)

// actionRegions returns the regions of actions, with a text in each place that can have one of a user.
func actionRegions(text string) map[string][]view.Region {
	links := []view.Action{
		{Text: "Pause…", Href: view.PathOf("pool", text) + "/pause", Danger: true},
		{Text: "Release…", Href: view.PathOf("pool", text) + "/release"},
	}
	form := view.ActionForm{
		Path: view.PathOf("pool", text) + "/hold", Back: view.PathOf("pool", text), Effect: "Effect " + text,
		Facts: []string{"Fact " + text}, Problem: "Problem " + text, Button: "Hold the pool", Danger: true,
		Token: "token", Command: "bunsen hold " + text,
		Fields: []view.ActionField{
			{
				Name: "at", Label: "Commit", Required: true, Problem: "Choose " + text,
				Options: []view.ActionOption{{Value: text, Text: text, Chosen: true}, {Value: "b", Text: "B"}},
			},
			{Name: "because", Label: "Reason", Required: true, Most: 500, Hint: "Why.", Value: text, Problem: "No: " + text},
			{Name: "until", Label: "Until", Most: 100, Value: text},
		},
	}
	return map[string][]view.Region{
		"actions":      {view.Actions{Links: links, Done: []string{"Done " + text}}.Region()},
		"actions-none": {view.Actions{}.Region()},
		"actions-form": form.Regions(),
		"actions-form-without-fields": view.ActionForm{
			Path: "/pool/a/release", Back: "/pool/a", Effect: "Effect", Token: "token",
		}.Regions(),
	}
}

// TestActions compares the regions of actions with those in testdata.
func TestActions(t *testing.T) {
	for name, regions := range actionRegions("worker & <b>") {
		t.Run(name, func(t *testing.T) { golden(t, name, html(regions)) })
	}
}

// TestHostileActionsAreText: no text of a user becomes an element, an attribute or an address elsewhere.
func TestHostileActionsAreText(t *testing.T) {
	count := func(regions []view.Region) (elements, attributes int) {
		text := html(regions)
		return strings.Count(text, "<"), strings.Count(text, `="`)
	}
	plain := actionRegions("x")
	for _, evil := range detailEvil {
		for name, regions := range actionRegions(evil) {
			elements, attributes := count(regions)
			if wantElements, want := count(plain[name]); elements != wantElements || attributes != want {
				t.Errorf("%s with %q has other elements or attributes:\n%s", name, evil, html(regions))
			}
			if text := html(regions); strings.ContainsAny(text, "\u202e\u2066\x1b") &&
				!strings.Contains(text, `value="`) {
				t.Errorf("%s with %q has hidden characters:\n%s", name, evil, text)
			}
		}
	}
}
