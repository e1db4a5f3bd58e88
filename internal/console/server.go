package console

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bunsen-os/bunsen/internal/cli"

	"github.com/bunsen-os/bunsen/internal/console/view"
)

const (
	// mostPath limits the path of a request with its query.
	mostPath = 8 << 10
	// mostHeader limits the headers of a request.
	mostHeader = 32 << 10
	// policy lets a page load this server's files only, and lets no page frame it.
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

// access decides which user a request is from.
type access interface {
	// admit returns the visitor of a request. If the request has no session, admit answers the request itself, and
	// returns nil.
	admit(w http.ResponseWriter, r *http.Request, now time.Time) *visitor
}

// returnToSite answers a user who comes from another site without a cookie: browsers send a strict cookie only if the
// console's own page opens the path. returnToSite returns false for every other request.
func returnToSite(w http.ResponseWriter, r *http.Request) bool {
	if !isNavigation(r) || r.Header.Get("Sec-Fetch-Site") != "cross-site" {
		return false
	}
	w.Header().Set("Refresh", "0")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprintln(w, "opening the console")
	return true
}

// Server answers the requests of browsers.
type Server struct {
	// cluster is the name of the cluster.
	cluster string
	origin  Origin
	access  access
	routes  []route
	files   map[string]file
	// forms allows the forms of signing in and out. If forms is true, everybody may read the files below /static/,
	// which the sign-in page needs.
	forms bool
}

func newServer(cluster string, origin Origin, a access) *Server {
	return &Server{cluster: cluster, origin: origin, access: a, routes: pages(), files: staticFiles()}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limitWrite(w) // Without this call, the connection would keep the deadline of its last answer.
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	if s.forms {
		header.Set("Referrer-Policy", "same-origin") // With no-referrer, browsers would hide the origin of a form.
	}
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	header.Set("Cache-Control", "no-store")
	if status, err := s.check(r); err != nil {
		if status == http.StatusMethodNotAllowed {
			header.Set("Allow", "GET, HEAD")
		}
		header.Set("Connection", "close")
		s.refuse(w, status, err.Error())
		return
	}
	now := time.Now()
	name, isFile := strings.CutPrefix(r.URL.Path, "/static/")
	if isFile && s.forms {
		s.serveFile(w, r, name)
		return
	}
	v := s.access.admit(w, r, now)
	if v == nil {
		return
	}
	switch {
	case isFile:
		s.serveFile(w, r, name)
	case r.URL.Path == "/events":
		s.serveStream(w, r, v)
	default:
		s.servePage(w, r, v)
	}
}

// check refuses requests that no browser of a user sends.
func (s *Server) check(r *http.Request) (int, error) {
	if err := s.origin.CheckHost(r); err != nil {
		return http.StatusMisdirectedRequest, err
	}
	if len(r.RequestURI) > mostPath {
		return http.StatusRequestURITooLong, fmt.Errorf("the path has more than %d bytes", mostPath)
	}
	if s.isForm(r) {
		if err := s.origin.CheckSite(r); err != nil {
			return http.StatusForbidden, err
		}
		return 0, nil
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return http.StatusMethodNotAllowed, errors.New("the console changes nothing: it allows GET and HEAD")
	}
	if r.ContentLength != 0 {
		return http.StatusBadRequest, errors.New("a request with a body is not allowed here")
	}
	if p := r.URL.Path; !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.ContainsFunc(p, isControl) {
		return http.StatusNotFound, errors.New("there is no page with that path")
	}
	if isNavigation(r) {
		return 0, nil
	}
	if err := s.origin.CheckSite(r); err != nil {
		return http.StatusForbidden, err
	}
	return 0, nil
}

// isForm reports whether a request is a form of signing in or out.
func (s *Server) isForm(r *http.Request) bool {
	return s.forms && r.Method == http.MethodPost && (r.URL.Path == signInPath || r.URL.Path == signOutPath)
}

// isNavigation reports whether a user follows a link. Another site may have links to pages of the console, but cannot
// read these pages.
func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document" && r.URL.Path != "/events"
}

// refuse answers with one line of text.
func (s *Server) refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	limitWrite(w)
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// limitWrite sets a deadline that ends a connection whose browser does not read.
func limitWrite(w http.ResponseWriter) {
	// If the response has no connection, there is no deadline to set.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
}

// servePage answers with a page.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request, v *visitor) {
	make := find(s.routes, r)
	if make == nil {
		s.write(w, http.StatusNotFound, s.notePage(v, "Not found", "There is no page with this path."))
		return
	}
	d := v.first(r, make)
	if d.err != nil {
		status, p := s.errorPage(v, d.err)
		s.write(w, status, p)
		return
	}
	d.page.Cluster, d.page.Viewer, d.page.SignOut = s.cluster, v.name, s.forms
	d.page.Stream = streamPath(r.URL.RequestURI(), d.digest, time.Now())
	s.write(w, http.StatusOK, d.page)
}

// errorPage returns a page that says why the requested page cannot be shown. errorPage names a missing right and the
// role that grants the right.
func (s *Server) errorPage(v *visitor, err error) (int, view.Page) {
	var exit *cli.ExitError
	switch {
	case apierrors.IsForbidden(err):
		return http.StatusForbidden, s.notePage(v, "Not allowed", err.Error())
	case apierrors.IsNotFound(err), errors.As(err, &exit) && exit.Code == cli.ExitInvalid:
		return http.StatusNotFound, s.notePage(v, "Not found", err.Error())
	}
	return http.StatusServiceUnavailable, s.notePage(v, "The cluster does not answer",
		"This page tries again every five seconds. "+err.Error())
}

// notePage is a page that is only a text.
func (s *Server) notePage(v *visitor, title, text string) view.Page {
	return view.Page{
		Frame:   view.Frame{Title: title, Cluster: s.cluster, Viewer: v.name, SignOut: s.forms},
		Regions: view.Note(text),
	}
}

// write writes a page.
func (s *Server) write(w http.ResponseWriter, status int, p view.Page) {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		s.refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Refresh", "5")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	limitWrite(w)
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // An error means that the browser has closed the connection.
}
