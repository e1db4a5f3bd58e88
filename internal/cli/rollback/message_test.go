package rollback_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/internal/cli/rollback"
)

func TestMessage(t *testing.T) {
	c := rollback.Choice{
		Pool: "worker", From: rollback.Step{Revision: "main@sha1:" + hashOf("c"), Subject: "Third"},
		To: rollback.Step{Revision: "main@sha1:" + hashOf("a"), Subject: "First", Config: "rendered-worker-p"},
	}
	two := []rollback.Commit{
		{Hash: hashOf("c"), Subject: "Third \x1b[31m\r"},
		{Hash: hashOf("b"), Subject: `A "second"`},
	}
	if got := c.Branch(); got != "bunsen/rollback-worker-cccccccc" {
		t.Errorf("the branch is %s", got)
	}
	want := `Revert "Third \x1b[31m\r" and 1 earlier commit

This returns pool worker of cluster prod to
aaaaaaaa0000 "First",
rendered-worker-p.

This reverts:
  ` + hashOf("c") + ` "Third \x1b[31m\r"
  ` + hashOf("b") + ` "A "second""

Files that do not reach the pool stay as they are:
  README.md
`
	if diff := cmp.Diff(want, c.Message(two, []rollback.Change{{Path: "README.md"}}, "prod")); diff != "" {
		t.Errorf("another message (-want +got):\n%s", diff)
	}
	if got := c.Message(two[1:], nil, ""); !strings.HasPrefix(got,
		"Revert \"A \"second\"\"\n\nThis returns pool worker to\n") ||
		!strings.HasSuffix(got, "\n\nThis reverts commit "+hashOf("b")+".\n") {
		t.Errorf("the message of one commit is\n%s", got)
	}
	if got := c.Title(nil); got != `Revert "Third"` {
		t.Errorf("the title of a merge is %s", got)
	}
	many := make([]rollback.Commit, 30)
	if got := c.Message(many, nil, ""); !strings.HasSuffix(got, "and 10 earlier commits.\n") ||
		!strings.HasPrefix(got, `Revert "" and 29 earlier commits`) {
		t.Errorf("the message of many commits is\n%s", got)
	}
}

// TestACommandForAShellHasNoOtherCommand: who may push a branch must not choose what a user pastes.
func TestACommandForAShellHasNoOtherCommand(t *testing.T) {
	branch := "a;touch${IFS}'x'"
	err := rollback.ConflictError([]rollback.Conflict{{Path: "f"}}, branch, hashOf("a"))
	_, command, _ := strings.Cut(err.Error(), "This prints the changes: ")
	if want := `git log -p aaaaaaaa..'a;touch${IFS}'\''x'\''' -- FILE`; command != want {
		t.Errorf("the command is %s, want %s", command, want)
	}
	if got := rollback.Word("release/1.0"); got != "release/1.0" {
		t.Errorf("a plain word is %s", got)
	}
}

// TestSort: every combination of three states of a file.
func TestSort(t *testing.T) {
	states := map[string]rollback.Blob{
		"-": {}, "a": {Mode: "100644", Hash: "aa"}, "b": {Mode: "100644", Hash: "bb"},
		"x": {Mode: "100755", Hash: "aa"},
	}
	for to := range states {
		for from := range states {
			for now := range states {
				if to == from {
					continue
				}
				s := rollback.Sort([]rollback.Change{{Path: "f", To: states[to], From: states[from], Now: states[now]}},
					nil)
				got := fmt.Sprint(len(s.Revert), len(s.Done), len(s.Conflicts))
				want := map[bool]string{true: "1 0 0"}[now == from]
				if now == to {
					want = "0 1 0"
				} else if want == "" {
					want = "0 0 1"
				}
				if got != want {
					t.Errorf("from %s to %s, now %s: %s, want %s", from, to, now, got, want)
				}
				if other := rollback.Sort([]rollback.Change{{Path: "f", From: states[from]}}, func(string) bool {
					return false
				}); len(other.Other) != 1 {
					t.Errorf("a file that does not reach the pool: %+v", other)
				}
			}
		}
	}
}

func TestSameRepository(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"https://git.example.com/os/config.git", "https://git.example.com/os/config", true},
		{"https://git.example.com/os/config.git", "https://ada:secret@GIT.example.com/os/config/", true},
		{"https://git.example.com/os/config.git", "git@git.example.com:os/config.git", true},
		{"https://git.example.com/os/config.git", "git.example.com:os/config", true},
		{"https://git.example.com:8443/os/config.git", "ssh://git@git.example.com:2222/os/config", true},
		{"https://git.example.com:8443/os/config.git", "https://git.example.com/os/config.git", false},
		{"https://git.example.com/os/config.git", "https://git.example.com/os/config2.git", false},
		{"https://git.example.com/os/config.git", "https://git.example.com.evil.net/os/config.git", false},
		{"https://git.example.com/os/config.git", "/os/config.git", false},
		{"/srv/config", "file:///srv/config/.git", true},
		{"/srv/config", "/srv/config2", false},
		{"", "", false},
	} {
		if got := rollback.SameRepository(tt.a, tt.b); got != tt.want ||
			rollback.SameRepository(tt.b, tt.a) != tt.want {
			t.Errorf("%s and %s: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	r := rollback.Result{
		Pool: "worker", To: rollback.Step{
			Revision: "main@sha1:" + hashOf("a"), Subject: "First",
			Config: "rendered-worker-0123456789abcdef",
		},
		Commits: []rollback.Commit{{Hash: hashOf("c"), Subject: "Third", Author: "Ada <ada@example.com>"}},
		Files: rollback.Files{
			Reverted: []rollback.File{
				{Path: "pools/worker/10-a.bu", Change: "restore", Lines: "+1 -3"},
				{Path: "pools/worker/9.bu", Change: "delete", Lines: "+0 -7"},
			},
			Other: []string{"README.md"},
		},
		Git: rollback.Git{
			Branch: "bunsen/rollback-worker-cccccccc", Base: "main", Commit: hashOf("d"),
			Directory: "/src/config",
		},
		Notes: []string{"a note"}, Todo: []string{"git push", "open the pull request"},
	}
	want := `pool/worker returns to main@sha1:aaaaaaaa "First", rendered-worker-01234

Reverts:   cccccccc "Third"   Ada <ada@example.com>
Files:     restore  pools/worker/10-a.bu   +1 -3
           delete   pools/worker/9.bu      +0 -7
Unchanged: README.md   (does not reach the pool; --all-files reverts it, too)
Commit:    dddddddd on branch bunsen/rollback-worker-cccccccc on top of main, in /src/config
Note:      a note
To do:     git push
           open the pull request
`
	if diff := cmp.Diff(want, r.Text("")); diff != "" {
		t.Errorf("another text (-want +got):\n%s", diff)
	}
	r.Git.Commit = ""
	if got := r.Text("pool worker: nothing\n"); !strings.HasSuffix(got,
		"\n\nThe merge does this to the cluster's nodes:\n\npool worker: nothing\n") ||
		!strings.Contains(got, "dry run: bunsen creates nothing") {
		t.Errorf("the text of a dry run is\n%s", got)
	}
}
