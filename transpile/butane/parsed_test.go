package butane

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Whoever has a document's tree already saves its parsing, and nothing else is different: not even where mistakes are
// said to be, though the tree has other lines than the text.
func TestATreeThatIsThereAlreadyChangesNothing(t *testing.T) {
	all := samples(t)
	const head = "variant: fcos\nversion: 1.6.0\n"
	for _, wrong := range []string{
		"storage:\n  files:\n    - path: /etc/a\n      mode: many\n    - path: [no]\n",
		"storage:\n  files: {path: /etc/a}\n", "storage: 5\n", "systemd:\n  units:\n    - ~\n", "storage: &a {}\npasswd: *a\n",
		"storage:\n  files:\n    - path: /etc/a\n      mod: 0644\n", "ignition:\n  timeouts:\n    http_total:\n      ten\n",
	} {
		all = append(all, sample{name: wrong, in: Input{Source: []byte(head + wrong), Origin: origin.Map{At: placesOf(head + wrong)}}})
	}
	refused := 0
	for _, s := range all {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(strings.Repeat("\n", 3)+string(s.in.Source)), &doc); err != nil {
			t.Fatal(err)
		}
		want, found := Translate(s.in)
		in := s.in
		in.Parsed = doc.Content[0]
		got, also := Translate(in)
		if diff := cmp.Diff(found, also) + cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-text +tree):\n%s", s.name, diff)
		}
		if origin.Fatal(found) {
			refused++
		}
	}
	if refused < 7 || refused == len(all) {
		t.Errorf("%d of %d documents are refused", refused, len(all))
	}
}
