package forge_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/internal/forge/forgetest"
)

func serve(t *testing.T, r *forgetest.Pull) string {
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return s.URL
}

// open returns the real client of a service, pointed at the recorder.
func open(t *testing.T, r *forgetest.Pull) forge.Host {
	t.Helper()
	target := r.Target(serve(t, r))
	var h forge.Host
	var err error
	switch r.Kind {
	case forge.GitHub:
		h, err = forge.NewGitHub(target, http.DefaultClient)
	case forge.GitLab:
		h, err = forge.NewGitLab(target, http.DefaultClient)
	default:
		h, err = forge.NewGitea(target, http.DefaultClient)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const marker = "<!-- bunsen:plan:v1:prod -->\n"

var good = forge.Status{Context: "bunsen/plan", State: forge.Success, Description: "worker: reload chronyd"}

func publish(t *testing.T, h forge.Host, body string) forge.Outcome {
	t.Helper()
	out, err := forge.Publish(t.Context(), h, body, good)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// services are all that are spoken to.
var services = []forge.Kind{forge.GitHub, forge.GitLab, forge.Gitea}

// onEach runs a test against each service.
func onEach(t *testing.T, test func(t *testing.T, r *forgetest.Pull)) { on(t, services, test) }

// on runs a test against some services.
func on(t *testing.T, kinds []forge.Kind, test func(t *testing.T, r *forgetest.Pull)) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) { test(t, &forgetest.Pull{Kind: kind, Self: "bunsen-bot"}) })
	}
}

func TestTheCommentIsMadeOnceThenEditedInPlace(t *testing.T) {
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		h := open(t, r)
		for _, step := range []struct {
			body string
			want forge.Outcome
		}{
			{"first\n", forge.Created},
			{"first\n", forge.Unchanged},
			{"second\n", forge.Edited},
			{"second", forge.Unchanged},
		} {
			if got := publish(t, h, marker+step.body); got != step.want {
				t.Errorf("%q was %s, want %s", step.body, got, step.want)
			}
		}
		if len(r.Comments) != 1 || r.Comments[0].Body != marker+"second\n" {
			t.Errorf("comments: %+v", r.Comments)
		}
		if len(r.Statuses) != 4 || r.Statuses[3].Context != "bunsen/plan" ||
			r.Statuses[3].Description != good.Description {
			t.Errorf("statuses: %+v", r.Statuses)
		}
	})
}

func TestACommentOfSomebodyElseIsNeverTouched(t *testing.T) {
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		r.Comments = []forge.Comment{
			{ID: 1, Author: "mallory", Body: marker + "all is well, merge me"},
			{ID: 2, Author: "bunsen-bot", Body: "<!-- bunsen:plan:v1:staging -->\nanother cluster's"},
			{ID: 3, Author: "bunsen-bot", Body: "quoting:\n" + marker},
		}
		before := append([]forge.Comment{}, r.Comments...)
		if got := publish(t, open(t, r), marker+"the plan"); got != forge.Created {
			t.Errorf("the comment was %s", got)
		}
		if d := cmp.Diff(before, r.Comments[:3]); d != "" {
			t.Error(d)
		}
	})
}

func TestOursIsFoundBelowHundredsOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		for i := range 230 {
			r.Comments = append(r.Comments, forge.Comment{ID: int64(i + 1), Author: "ada", Body: "talk"})
		}
		r.Comments = append(r.Comments, forge.Comment{
			ID: 900, Author: "Bunsen-Bot",
			Body: strings.ReplaceAll(marker+"old\n", "\n", "\r\n"),
		})
		if got := publish(t, open(t, r), marker+"new"); got != forge.Edited {
			t.Errorf("the comment was %s", got)
		}
	})
}

// ownTokens are the services whose jobs have a token that may write comments. GitLab's may not write notes at all:
// there, a project's access token is used, which can ask who it is.
var ownTokens = []forge.Kind{forge.GitHub, forge.Gitea}

func TestAJobsOwnTokenNeedNotAskWhoItIs(t *testing.T) {
	on(t, ownTokens, func(t *testing.T, r *forgetest.Pull) {
		r.Self = ""
		h := open(t, r)
		publish(t, h, marker+"first")
		if got := publish(t, h, marker+"second"); got != forge.Edited {
			t.Errorf("the comment was %s", got)
		}
	})
}

func TestARefusalIsToldApartAndNamesNoToken(t *testing.T) {
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		r.ReadOnly = true
		_, err := forge.Publish(t.Context(), open(t, r), marker+"x", good)
		if !errors.Is(err, forge.ErrForbidden) || strings.Contains(err.Error(), forgetest.Token) {
			t.Errorf("got %v", err)
		}
	})
}

func TestATokenThatMayNotSetAStatusComments(t *testing.T) {
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		r.NoStatus = true
		out, err := forge.Publish(t.Context(), open(t, r), marker+"x", good)
		if out != forge.Created || !errors.Is(err, forge.ErrForbidden) || len(r.Comments) != 1 {
			t.Errorf("got %q, %v, %d comments", out, err, len(r.Comments))
		}
	})
}

func TestAServiceThatIsDownIsAnErrorThatIsNoRefusal(t *testing.T) {
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		server := serve(t, r)
		r.Kind, server = forge.GitHub, server+"/elsewhere"
		h, err := forge.NewGitHub(r.Target(server), http.DefaultClient)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := forge.Publish(t.Context(), h, marker, good); err == nil || errors.Is(err, forge.ErrForbidden) ||
			strings.Contains(err.Error(), forgetest.Token) {
			t.Errorf("got %v", err)
		}
	})
}

func TestADescriptionIsCutWhereAServiceWouldRefuseIt(t *testing.T) {
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		s := good
		s.State, s.Description = forge.Failure, strings.Repeat("ä", 200)
		if _, err := forge.Publish(t.Context(), open(t, r), marker, s); err != nil {
			t.Fatal(err)
		}
		if got := []rune(r.Statuses[0].Description); len(got) != 140 || got[139] != '…' {
			t.Errorf("%d characters: %s", len(got), string(got))
		}
	})
}

func TestEachServiceIsToldInItsOwnForm(t *testing.T) {
	golden := map[forge.Kind]string{
		forge.GitHub: `POST /repos/acme/os-config/statuses/0123456789abcdef0123456789abcdef01234567 {"state":"success","target_url":"https://ci/1","description":"worker: reload chronyd","context":"bunsen/plan"}
POST /repos/acme/os-config/issues/7/comments {"body":"the plan"}
PATCH /repos/acme/os-config/issues/comments/1000 {"body":"another"}`,
		forge.GitLab: `POST /api/v4/projects/42/statuses/0123456789abcdef0123456789abcdef01234567 {"state":"success","context":"bunsen/plan","target_url":"https://ci/1","description":"worker: reload chronyd"}
POST /api/v4/projects/42/merge_requests/7/notes {"body":"the plan"}
PUT /api/v4/projects/42/merge_requests/7/notes/1000 {"body":"another"}`,
		forge.Gitea: `POST /api/v1/repos/acme/os-config/statuses/0123456789abcdef0123456789abcdef01234567 {"state":"success","target_url":"https://ci/1","description":"worker: reload chronyd","context":"bunsen/plan"}
POST /api/v1/repos/acme/os-config/issues/7/comments {"body":"the plan"}
PATCH /api/v1/repos/acme/os-config/issues/comments/1000 {"body":"another"}`,
	}
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		h := open(t, r)
		linked := good
		linked.URL = "https://ci/1"
		for _, err := range []error{
			h.Status(t.Context(), linked), h.Create(t.Context(), "the plan"),
			h.Edit(t.Context(), 1000, "another"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(golden[r.Kind], strings.Join(r.Log, "\n")); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
	})
}

func TestAProjectOfTheWrongFormIsRefused(t *testing.T) {
	for _, project := range []string{"", "name", "a/b/c"} {
		if _, err := forge.NewGitHub(forge.Target{Project: project}, http.DefaultClient); err == nil {
			t.Errorf("github takes %q", project)
		}
		if _, err := forge.NewGitea(forge.Target{Project: project}, http.DefaultClient); err == nil {
			t.Errorf("gitea takes %q", project)
		}
	}
}

// TestALostAnswerIsNoReasonToWriteTwice loses the answer to each change, in turn. There is one comment, and Publish
// knows what became of it.
func TestALostAnswerIsNoReasonToWriteTwice(t *testing.T) {
	for says, gateway := range map[string]bool{"the connection is closed": false, "a gateway answers": true} {
		t.Run(says, func(t *testing.T) {
			onEach(t, func(t *testing.T, r *forgetest.Pull) {
				r.Gateway = gateway
				for k := 1; ; k++ {
					r.Comments, r.Statuses, r.Log = nil, nil, nil
					r.Lose = func(n int) bool { return n == k }
					h := open(t, r)
					if got := publish(t, h, marker+"first"); got != forge.Created {
						t.Errorf("without an answer to change %d: the comment was %s", k, got)
					}
					if got := publish(t, h, marker+"second"); got != forge.Edited {
						t.Errorf("without an answer to change %d: the comment was %s", k, got)
					}
					if len(r.Comments) != 1 || r.Comments[0].Body != marker+"second" {
						t.Fatalf("without an answer to change %d: %+v", k, r.Comments)
					}
					if len(r.Log) < k {
						break
					}
				}
			})
		})
	}
}

// TestACommentThatGotNoAnswerAndIsNotThereIsAnError: the next run decides again.
func TestACommentThatGotNoAnswerAndIsNotThereIsAnError(t *testing.T) {
	onEach(t, func(t *testing.T, r *forgetest.Pull) {
		h := forgetful{open(t, r)}
		_, err := forge.Publish(t.Context(), h, marker+"first", good)
		if !fault.IsUnknown(err) || len(r.Comments) != 0 {
			t.Errorf("%v, %+v", err, r.Comments)
		}
	})
}

// forgetful is a service that neither writes comments nor answers.
type forgetful struct{ forge.Host }

// Create implements Host.
func (forgetful) Create(context.Context, string) error {
	return fault.NewUnknown(errors.New("it does not answer"))
}
