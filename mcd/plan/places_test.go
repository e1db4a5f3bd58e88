package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestALinkThatAUserCouldExchangeIsNotFollowedInAdvance: between the look at a link and the write, its owner may lead
// it elsewhere. The host judges such a link whenever it opens the path, and the spelling leaves that to the host.
func TestALinkThatAUserCouldExchangeIsNotFollowedInAdvance(t *testing.T) {
	root, user := host.Owner{}, host.Owner{UID: 1500}
	for sentence, c := range map[string]struct {
		home, link host.Entry
		at         string
	}{
		"a link of root where only root writes": {
			host.Entry{Kind: host.Dir, Mode: 0o755}, host.Entry{Kind: host.Link, Target: "/etc"}, "/etc/x",
		},
		"a link of a user": {
			host.Entry{Kind: host.Dir, Mode: 0o755, Owner: user},
			host.Entry{Kind: host.Link, Target: "/etc", Owner: user},
			"/home/app/l/x",
		},
		"a link of root in a directory of a user, who can put another in its place": {
			host.Entry{Kind: host.Dir, Mode: 0o755, Owner: user},
			host.Entry{Kind: host.Link, Target: "/etc", Owner: root},
			"/home/app/l/x",
		},
		"a link of root in a directory in which a group writes": {
			host.Entry{Kind: host.Dir, Mode: 0o775}, host.Entry{Kind: host.Link, Target: "/etc"}, "/home/app/l/x",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			tree := map[string]host.Entry{
				"/home": {Kind: host.Dir, Mode: 0o755}, "/etc": {Kind: host.Dir, Mode: 0o755},
				"/home/app": c.home, "/home/app/l": c.link,
			}
			file := host.Entry{Kind: host.File, Mode: 0o644}
			w := plan.Transition{New: plan.Desired{Paths: map[string]host.Entry{"/home/app/l/x": file}}}
			w, err := w.Place(func(p string) (host.Entry, error) { return tree[p], nil })
			if err != nil || len(w.Refusals) > 0 {
				t.Fatal(err, w.Refusals)
			}
			if diff := cmp.Diff(map[string]host.Entry{c.at: file}, w.New.Paths); diff != "" {
				t.Error(diff)
			}
		})
	}
}
