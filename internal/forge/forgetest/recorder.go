package forgetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/internal/forge"
)

// Pull is a server with one pull request. It implements the documented calls of three APIs and records them; other
// calls get a 400.
type Pull struct {
	Kind forge.Kind
	// Self is the user of the token; "" for the token of a job, which may not read its user.
	Self string
	// ReadOnly refuses every change, as for the CI job of a fork.
	ReadOnly bool
	// NoStatus refuses statuses alone, as for a token without this permission.
	NoStatus bool
	// Lose says for a change, numbered from 1, that the client gets no answer, or with Gateway that of a gateway.
	Lose    func(n int) bool
	Gateway bool
	// Merged: the merge of the pull request created the commit Head.
	Merged bool
	// Head, if set, is the pull request's last commit in place of the constant.
	Head string

	// Comments and Statuses are what clients wrote, and Log the calls that changed something, in order. Read these only
	// while no request runs.
	Comments []forge.Comment
	Statuses []forge.Status
	Log      []string

	mu sync.Mutex
}

// The pull request and its token.
const (
	Token   = "s3cret"
	Project = "acme/os-config"
	Number  = 7
	Head    = "0123456789abcdef0123456789abcdef01234567"
)

// Target returns the pull request on a server that runs the Pull.
func (r *Pull) Target(server string) forge.Target {
	t := forge.Target{Kind: r.Kind, Project: Project, Number: Number, Head: r.head(), Token: Token}
	switch r.Kind {
	case forge.GitHub:
		t.API, t.Author = server, "github-actions[bot]"
	case forge.GitLab:
		t.API, t.Project = server+"/api/v4", "42"
	case forge.Gitea:
		t.API, t.Author = server+"/api/v1", "forgejo-actions"
	}
	return t
}

func (r *Pull) authorised(h http.Header) bool {
	switch r.Kind {
	case forge.GitHub:
		return h.Get("Authorization") == "Bearer "+Token
	case forge.GitLab:
		return h.Get("Private-Token") == Token
	default:
		return h.Get("Authorization") == "token "+Token
	}
}

// ServeHTTP answers one request.
func (r *Pull) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(q.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if q.Method != http.MethodGet {
		r.Log = append(r.Log, fmt.Sprintf("%s %s %s", q.Method, q.URL.Path, strings.TrimSpace(string(body))))
	}
	status, answer := r.answer(q, body)
	if !r.authorised(q.Header) {
		status, answer = http.StatusUnauthorized, map[string]string{"message": "401 Unauthorized"}
	}
	if q.Method != http.MethodGet && r.Lose != nil && r.Lose(len(r.Log)) {
		if !r.Gateway {
			panic(http.ErrAbortHandler) // It closes the connection.
		}
		status, answer = http.StatusBadGateway, map[string]string{"message": "502 Bad Gateway"}
	}
	w.Header().Set("Content-Type", "application/json")
	r.next(w.Header(), q)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // The error is ignored, because the client may have closed the connection.
}

type paths struct{ user, list, create, edit, status, editMethod, statuses, pulls string }

func (r *Pull) head() string { return cmp.Or(r.Head, Head) }

func (r *Pull) paths() paths {
	switch r.Kind {
	case forge.GitHub:
		base := "/repos/" + Project
		return paths{
			"/user", base + "/issues/7/comments", base + "/issues/7/comments", base + "/issues/comments/",
			base + "/statuses/" + r.head(), http.MethodPatch, base + "/commits/" + r.head() + "/status",
			base + "/commits/" + r.head() + "/pulls",
		}
	case forge.GitLab:
		base := "/api/v4/projects/42"
		return paths{
			"/api/v4/user", base + "/merge_requests/7/notes", base + "/merge_requests/7/notes",
			base + "/merge_requests/7/notes/", base + "/statuses/" + r.head(), http.MethodPut,
			base + "/repository/commits/" + r.head() + "/statuses", base + "/repository/commits/" + r.head() +
				"/merge_requests",
		}
	default:
		base := "/api/v1/repos/" + Project
		return paths{
			"/api/v1/user", base + "/issues/7/comments", base + "/issues/7/comments",
			base + "/issues/comments/", base + "/statuses/" + r.head(), http.MethodPatch, base + "/commits/" +
				r.head() + "/status", base + "/commits/" + r.head() + "/pull",
		}
	}
}

func (r *Pull) answer(q *http.Request, body []byte) (int, any) {
	// GitLab accepts both forms of a project in the path.
	p, at := r.paths(), strings.Replace(q.URL.Path, "/projects/"+Project+"/", "/projects/42/", 1)
	forbidden := map[string]string{"message": "Resource not accessible by integration"}
	if r.ReadOnly && q.Method != http.MethodGet {
		return http.StatusForbidden, forbidden
	}
	switch call := q.Method + " " + at; {
	case call == "GET "+p.user && r.Self == "", at == p.status && r.NoStatus:
		return http.StatusForbidden, forbidden
	case call == "GET "+p.user:
		return http.StatusOK, map[string]any{"login": r.Self, "username": r.Self}
	case call == "GET "+p.list:
		return http.StatusOK, r.page(q.URL.Query())
	case call == "GET "+p.statuses:
		return http.StatusOK, r.posted()
	case call == "GET "+p.pulls:
		return r.pulls()
	case call == "POST "+p.create:
		r.Comments = append(r.Comments, forge.Comment{
			ID: int64(1000 + len(r.Comments)), Author: r.writer(),
			Body: bodyOf(body),
		})
		return http.StatusCreated, map[string]any{"id": 1000 + len(r.Comments) - 1}
	case strings.HasPrefix(call, p.editMethod+" "+p.edit):
		return r.edit(strings.TrimPrefix(at, p.edit), bodyOf(body))
	case call == "POST "+p.status:
		return r.status(body)
	default:
		return http.StatusBadRequest, map[string]string{"message": "no such call: " + call}
	}
}

func (r *Pull) writer() string {
	switch {
	case r.Self != "":
		return r.Self
	case r.Kind == forge.GitHub:
		return "github-actions[bot]"
	default:
		return "forgejo-actions"
	}
}

func bodyOf(body []byte) string {
	var x struct{ Body string }
	_ = json.Unmarshal(body, &x) // The error is ignored, because a test finds an empty comment.
	return x.Body
}

func (r *Pull) edit(id, body string) (int, any) {
	for i := range r.Comments {
		if strconv.FormatInt(r.Comments[i].ID, 10) == id {
			r.Comments[i].Body = body
			return http.StatusOK, map[string]any{"id": r.Comments[i].ID}
		}
	}
	return http.StatusNotFound, map[string]string{"message": "Not Found"}
}

func (r *Pull) status(body []byte) (int, any) {
	var s struct{ State, Context, Description string }
	if err := json.Unmarshal(body, &s); err != nil {
		return http.StatusBadRequest, map[string]string{"message": err.Error()}
	}
	state, known := states[r.Kind][s.State]
	if !known {
		return http.StatusBadRequest, map[string]string{"message": "unknown state " + s.State}
	}
	if last := slices.IndexFunc(r.Statuses, func(p forge.Status) bool {
		return p.Context == s.Context
	}); r.Kind == forge.GitLab && state == forge.Pending && last >= 0 && r.Statuses[len(r.Statuses)-1].State == state {
		return http.StatusBadRequest, map[string]string{"message": "Cannot transition status via :run from :running"}
	}
	r.Statuses = append(r.Statuses, forge.Status{Context: s.Context, State: state, Description: s.Description})
	return http.StatusCreated, map[string]any{"id": 1}
}

var states = map[forge.Kind]map[string]forge.State{
	forge.GitHub: {"success": forge.Success, "failure": forge.Failure, "pending": forge.Pending, "error": forge.Canceled},
	forge.GitLab: {"success": forge.Success, "failed": forge.Failure, "running": forge.Pending, "canceled": forge.Canceled},
	forge.Gitea:  {"success": forge.Success, "failure": forge.Failure, "pending": forge.Pending, "warning": forge.Canceled},
}

func (r *Pull) posted() any {
	var out []map[string]any
	for i := len(r.Statuses) - 1; i >= 0; i-- {
		s := r.Statuses[i]
		if slices.ContainsFunc(r.Statuses[i+1:], func(later forge.Status) bool { return later.Context == s.Context }) {
			continue
		}
		state := ""
		for name, is := range states[r.Kind] {
			if is == s.State {
				state = name
			}
		}
		at := time.Date(2026, 3, 4, 12, i, 0, 0, time.UTC).Format(time.RFC3339)
		out = append(out, map[string]any{
			"context": s.Context, "name": s.Context, "state": state, "status": state, "description": s.Description,
			"updated_at": at, "created_at": at,
		})
	}
	if r.Kind == forge.GitLab {
		return out
	}
	return map[string]any{"statuses": out, "total_count": len(out)}
}

func (r *Pull) pulls() (int, any) {
	merged := map[string]any{
		"number": Number, "iid": Number, "merged": r.Merged, "state": "open",
		"merge_commit_sha": "", "sha": "",
	}
	if r.Merged {
		merged["state"], merged["merge_commit_sha"], merged["merged_at"] = "merged", Head, "2026-03-04T12:00:00Z"
	}
	switch {
	case r.Kind != forge.Gitea:
		return http.StatusOK, []any{merged}
	case !r.Merged:
		return http.StatusNotFound, map[string]string{"message": "not found"}
	default:
		return http.StatusOK, merged
	}
}

// next points to the next page: GitHub by a link, GitLab by its own header.
func (r *Pull) next(h http.Header, q *http.Request) {
	size, _ := strconv.Atoi(q.URL.Query().Get("per_page"))
	page, _ := strconv.Atoi(q.URL.Query().Get("page"))
	if page = max(page, 1); size == 0 || page*size >= len(r.Comments) {
		return
	}
	h.Set("X-Next-Page", strconv.Itoa(page+1))
	h.Set("Link", fmt.Sprintf(`<http://%s%s?per_page=%d&page=%d>; rel="next"`, q.Host, q.URL.Path, size, page+1))
}

// page returns one page of comments; Gitea has all on each page.
func (r *Pull) page(q url.Values) any {
	size, _ := strconv.Atoi(q.Get("per_page") + q.Get("limit"))
	page, _ := strconv.Atoi(q.Get("page"))
	if size == 0 || r.Kind == forge.Gitea { // Gitea ignores the page in this call.
		size = 1 << 20
	}
	from := min((max(page, 1)-1)*size, len(r.Comments))
	if r.Kind == forge.Gitea {
		from = 0
	}
	out := []any{}
	for _, c := range r.Comments[from:min(from+size, len(r.Comments))] {
		who := map[string]string{"login": c.Author, "username": c.Author}
		out = append(out, map[string]any{"id": c.ID, "body": c.Body, "user": who, "author": who})
	}
	return out
}
