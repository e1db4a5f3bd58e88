package view

import (
	"strings"
	"testing"
)

// leaf is a region without parts.
func leaf(id, text string) Region {
	return Region{ID: id, Open: `<p id="` + id + `">` + text, Close: "</p>"}
}

// TestTheSmallestRegionsThatChangedAreSent: the table has a page before and after, and the ids that a browser has to
// replace.
func TestTheSmallestRegionsThatChangedAreSent(t *testing.T) {
	nodes := func(open string, parts ...Region) Region {
		return Region{ID: "map", Open: `<ul id="map">` + open, Parts: parts, Close: "</ul>"}
	}
	cases := map[string]struct {
		before, after []Region
		want          string
	}{
		"nothing changed":                      {[]Region{leaf("a", "1")}, []Region{leaf("a", "1")}, ""},
		"one of two regions changed":           {[]Region{leaf("a", "1"), leaf("b", "1")}, []Region{leaf("a", "1"), leaf("b", "2")}, "b"},
		"one part changed":                     {[]Region{nodes("", leaf("n1", "x"), leaf("n2", "x"))}, []Region{nodes("", leaf("n1", "x"), leaf("n2", "y"))}, "n2"},
		"a part is new":                        {[]Region{nodes("", leaf("n1", "x"))}, []Region{nodes("", leaf("n1", "x"), leaf("n2", "y"))}, "map"},
		"a part is gone":                       {[]Region{nodes("", leaf("n1", "x"), leaf("n2", "y"))}, []Region{nodes("", leaf("n1", "x"))}, "map"},
		"the parts have another order":         {[]Region{nodes("", leaf("n1", "x"), leaf("n2", "y"))}, []Region{nodes("", leaf("n2", "y"), leaf("n1", "x"))}, "map"},
		"the text before the parts changed":    {[]Region{nodes("1", leaf("n1", "x"))}, []Region{nodes("2", leaf("n1", "y"))}, "map"},
		"a region is new":                      {nil, []Region{leaf("a", "1")}, "a"},
		"a region is gone, and nothing is new": {[]Region{leaf("a", "1")}, nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var ids []string
			for _, r := range ChangedRegions(c.before, c.after) {
				ids = append(ids, r.ID)
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("it sends %q, want %q", got, c.want)
			}
		})
	}
}

// TestASwapNamesTheElementThatItReplaces: the attribute stands in the start tag of the region alone, not in its parts.
func TestASwapNamesTheElementThatItReplaces(t *testing.T) {
	r := Region{ID: "map", Open: `<ul id="map">`, Parts: []Region{leaf("n1", `id="map"`)}, Close: "</ul>"}
	want := `<ul id="map" hx-swap-oob="true"><p id="n1">id="map"</p></ul>`
	if got := SwapRegions([]Region{r}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
