package console

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli/kube"

	"github.com/bunsen-os/bunsen/internal/console/view"
)

const (
	signInPath  = "/sign-in"
	signOutPath = "/sign-out"
	// of a session with a token
	sharedTime = 8 * time.Hour
	// of the form; tokens with many groups have a few kilobytes
	mostForm = 64 << 10
	// of all users
	mostSessions = 500
	// how many tokens are checked at a time
	mostSignIns = 8
	checkTime   = 10 * time.Second
)

// signIn admits users who have a token of the API server, and reads only with that token.
type signIn struct {
	// without credentials
	api    *rest.Config
	store  *SessionStore[*visitor]
	server *Server
	// watches are those of all users.
	watches watches
	// nil without an OpenID provider
	sso *sso
	// an entry for each token that is being checked
	checks chan struct{}
}

// admit returns the visitor of a session, and answers the forms. Without a session, it answers with the form.
func (a *signIn) admit(w http.ResponseWriter, r *http.Request, now time.Time) *visitor {
	switch {
	case a.server.isForm(r) && r.URL.Path == signInPath:
		a.open(w, r, now)
		return nil
	case a.server.isForm(r):
		http.SetCookie(w, a.store.Close(r))
		redirect(w, signInPath)
		return nil
	}
	if a.sso != nil && a.single(w, r, now) {
		return nil
	}
	v, ok := a.store.Find(r, now)
	switch {
	case ok && r.URL.Path == signInPath:
		redirect(w, "/")
		return nil
	case ok:
		return v
	case r.URL.Path == "/events":
		a.server.refuse(w, http.StatusUnauthorized, "not signed in")
	case !returnToSite(w, r):
		status := http.StatusUnauthorized
		if r.URL.Path == signInPath {
			status = http.StatusOK
		}
		a.form(w, status, "", a.next(r.URL.RequestURI()))
	}
	return nil
}

func redirect(w http.ResponseWriter, path string) {
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// next returns the path of a page, by default of the overview.
func (a *signIn) next(path string) string {
	page, err := requestFor(&http.Request{Method: http.MethodGet, URL: &url.URL{}}, path)
	if err != nil || find(a.server.routes, page) == nil && findAction(a.server.actions, page) == nil {
		return "/"
	}
	return path
}

func (a *signIn) formToken(r *http.Request, now time.Time) string { return a.store.FormToken(r, now) }

func (a *signIn) form(w http.ResponseWriter, status int, problem, next string) {
	form := view.SignInForm{Problem: problem, Next: next}
	if a.sso != nil {
		form.Provider = ssoStartPath + "?" + url.Values{"next": {next}}.Encode()
	}
	a.server.write(w, status, view.Page{
		Frame:   view.Frame{Title: "Sign in", Cluster: a.server.cluster},
		Regions: view.SignIn(form),
	})
}

func (a *signIn) open(w http.ResponseWriter, r *http.Request, now time.Time) {
	// The connection may support no deadline.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(checkTime))
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		a.form(w, http.StatusBadRequest, "The form was not readable, or larger than 64 KiB.", "/")
		return
	}
	a.enter(w, r, now, func() (token, next string, err error) {
		return strings.TrimSpace(r.PostForm.Get("token")), a.next(r.PostForm.Get("next")), nil
	})
}

// enter opens a session with a token, and sends the browser to the next path.
func (a *signIn) enter(w http.ResponseWriter, r *http.Request, now time.Time,
	read func() (token, next string, err error),
) {
	select {
	case a.checks <- struct{}{}:
		defer func() { <-a.checks }()
	default:
		a.form(w, http.StatusTooManyRequests, "Too many users sign in at this moment: try again.", "/")
		return
	}
	token, next, err := read()
	var v *visitor
	if err == nil {
		v, err = a.visitorOf(r.Context(), token)
	}
	if err != nil {
		a.form(w, http.StatusUnauthorized, err.Error(), next)
		return
	}
	cookie, err := a.store.Open(rand.Reader, v, now, endOf(token, now))
	if err != nil {
		a.form(w, http.StatusInternalServerError, err.Error(), next)
		return
	}
	http.SetCookie(w, cookie)
	redirect(w, next)
}

// single answers the requests of users who go to the OpenID provider or come back from it, and returns false for
// others.
func (a *signIn) single(w http.ResponseWriter, r *http.Request, now time.Time) bool {
	if r.Method != http.MethodGet {
		return false
	}
	switch r.URL.Path {
	case ssoStartPath:
		next := a.next(r.URL.Query().Get("next"))
		if err := a.sso.start(w, r, next, now); err != nil {
			a.form(w, http.StatusBadGateway, err.Error(), next)
		}
	case ssoCallbackPath:
		a.enter(w, r, now, func() (token, next string, err error) { return a.sso.finish(w, r, now) })
	default:
		return false
	}
	return true
}

// visitorOf asks the API server which user a token belongs to.
func (a *signIn) visitorOf(ctx context.Context, token string) (*visitor, error) {
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("this is not a token: it is empty, or has spaces or other characters that no token has")
	}
	rc := rest.AnonymousClientConfig(a.api)
	rc.BearerToken, rc.QPS, rc.Burst = token, 50, 100
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(rc, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	// The questions about rights have a client of their own: no page can delay them.
	asking, err := client.New(rc, client.Options{Scheme: scheme, Mapper: c.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	review := &authenticationv1.SelfSubjectReview{}
	switch err := c.Create(ctx, review); {
	case apierrors.IsUnauthorized(err):
		return nil, errors.New("the API server does not accept this token: it may have expired")
	case err != nil:
		return nil, kube.RequestError("checking the token", err)
	}
	name := review.Status.UserInfo.Username
	if name == "" || name == "system:anonymous" {
		return nil, errors.New("the API server does not accept this token: it names no user")
	}
	var v *visitor
	v = newVisitor(name, c, a.watches.source(user{
		config: rc, client: c, follow: kube.FollowObjects,
		access: func(ctx context.Context) (kube.Access, error) { return kube.AccessOf(ctx, asking) },
		unauthorized: func() {
			a.store.CloseIf(func(other *visitor) bool { return other == v })
		},
	}))
	v.readOnly = a.server.actions == nil
	return v, nil
}

// endOf returns when a session ends: with its token, if that says when it expires. The API server has checked the
// token, so the signature does not matter here.
func endOf(token string, now time.Time) time.Time {
	ends := now.Add(sharedTime)
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ends
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Expires <= 0 {
		return ends
	}
	if at := time.Unix(claims.Expires, 0); at.Before(ends) {
		return at
	}
	return ends
}
