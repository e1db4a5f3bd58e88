package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console/view"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	corev1 "k8s.io/api/core/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// with its query
	mostPath   = 8 << 10
	mostHeader = 32 << 10
	// A page loads this server's files only, and no page frames it.
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

type access interface {
	// admit returns the visitor of a request. Without a session, it answers the request itself, and returns nil.
	admit(w http.ResponseWriter, r *http.Request, now time.Time) *visitor
	// formToken returns what the forms of a request's session contain.
	formToken(r *http.Request, now time.Time) string
}

// returnToSite answers a user who comes from another site without a cookie: browsers send a strict cookie only if the
// console's own page opens the path. It is false for every other request.
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
	cluster string
	origin  Origin
	access  access
	routes  []route
	// actions is nil for a console that only reads.
	actions []*action
	files   map[string]file
	// Users sign in and out by forms. Then everybody may read the files below /static/, which the sign-in page needs.
	forms bool
}

func newServer(cluster string, origin Origin, a access) *Server {
	return &Server{
		cluster: cluster, origin: origin, access: a, routes: pages(), actions: actions(), files: staticFiles(),
	}
}

func staticFiles() map[string]file {
	types := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".svg": "image/svg+xml",
	}
	files, from := map[string]file{}, view.Static()
	names, err := fs.Glob(from, "*")
	if err != nil {
		panic(err) // The pattern is valid, so there is no error.
	}
	for _, name := range names {
		content, err := fs.ReadFile(from, name)
		if err != nil {
			panic(fmt.Sprintf("embedded file %s: %v", name, err))
		}
		sum := sha256.Sum256(content)
		mediaType := types[path.Ext(name)]
		if mediaType == "" {
			mediaType = "text/plain; charset=utf-8"
		}
		files[name] = file{content, mediaType, `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return files
}

func pages() []route {
	return append([]route{
		{"/", overview},
		{"/commits", commitsPage},
		{"/pool/{pool}", poolPage},
	}, detailPages()...)
}

// poolPage makes the page of one pool: why the pool waits, its nodes, and its history.
func poolPage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	name := r.PathValue("pool")
	f, err := fleetOf(ctx, v, now)
	if err != nil {
		return view.Page{}, err
	}
	why, err := whyPool(v, f, name)
	if err != nil {
		return view.Page{}, cli.Invalid(err)
	}
	acts := actionsOf(ctx, v, r, f, kube.KindPool, name)
	past, err := history.Of(f, name)
	if err != nil {
		return view.Page{}, cli.Invalid(err)
	}
	status := statusOf(ctx, v, f)
	timeline := view.PoolTimeline(ctx, sessionOf(v), name, now)
	p := view.PoolPage{
		Timeline: &timeline, Why: why, History: &past, Zones: zonesOf(f.Cluster), Map: mapOptions(r),
		Stages: inspect.Stages(f, name), Rules: inspect.Rules(f, name), Expected: inspect.Expected(f, name),
	}
	for i := range status.Nodes {
		if status.Nodes[i].Pool == name {
			p.Nodes = append(p.Nodes, status.Nodes[i])
		}
	}
	return view.Page{
		Frame: view.Frame{
			Title: "Pool " + name, OwnHead: true, Command: fleet.ShellLine("bunsen", "why", "pool/"+name),
		},
		Regions: slices.Insert(p.Regions(now), 1, acts.Region()),
	}, nil
}

// zonesOf returns the zone of each node that has one.
func zonesOf(c fleet.Cluster) map[string]string {
	zones := map[string]string{}
	for i := range c.Nodes {
		if zone := c.Nodes[i].Labels[corev1.LabelTopologyZone]; zone != "" {
			zones[c.Nodes[i].Name] = zone
		}
	}
	return zones
}

// mapOptions reads the query of a page. An invalid page number means the first page.
func mapOptions(r *http.Request) view.MapOptions {
	q := r.URL.Query()
	page, _ := strconv.Atoi(q.Get("page"))
	o := view.MapOptions{By: q.Get("by"), Filter: q.Get("filter"), Page: min(max(page, 1), 1000)}
	if len(o.Filter) > longestFilter {
		o.Filter = o.Filter[:longestFilter]
	}
	return o
}

// overview makes the page of the whole cluster.
func overview(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	f, err := fleetOf(ctx, v, now)
	if err != nil {
		return view.Page{}, err
	}
	acts := actionsOfSources(ctx, v, f)
	return view.Page{
		Frame:   view.Frame{Title: "Overview", Here: "overview", OwnHead: true, Command: "bunsen status -w"},
		Regions: view.Overview(f, statusOf(ctx, v, f), acts, doneOn(v, r, now), now),
	}, nil
}

// commitsPage makes the page with the commits of all pools.
func commitsPage(ctx context.Context, v Viewer, _ *http.Request, now time.Time) (view.Page, error) {
	f, err := fleetOf(ctx, v, now)
	if err != nil {
		return view.Page{}, err
	}
	return view.Page{
		Frame:   view.Frame{Title: "Commits", Here: "commits", Command: "bunsen history"},
		Regions: view.Commits(f, statusOf(ctx, v, f)),
	}, nil
}

func detailPages() []route {
	return []route{
		{"/node/{node}", nodePage},
		{"/pool/{pool}/commit/{commit}", commitPage},
		{"/pool/{pool}/timeline", timelinePage},
		{"/compare", comparePage},
		{"/search", searchPage},
	}
}

func timelinePage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	pool := r.PathValue("pool")
	p, err := view.Timeline(ctx, sessionOf(v), pool, now)
	if err != nil {
		return view.Page{}, found(err)
	}
	return view.Page{
		Frame: view.Frame{Title: "Timeline of pool " + pool, Command: fleet.ShellLine("bunsen", "history",
			"pool/"+pool)},
		Regions: p.Regions(now),
	}, nil
}

func searchPage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	p, err := sessionOf(v).Search(ctx, r.URL.Query().Get("q"), now)
	if err != nil {
		return view.Page{}, found(err)
	}
	return view.Page{Frame: view.Frame{Title: "Search"}, Regions: p.Regions()}, nil
}

func nodePage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	name := r.PathValue("node")
	p, err := sessionOf(v).Node(ctx, name, now)
	if err != nil {
		return view.Page{}, found(err)
	}
	acts, err := nodeActions(ctx, v, r, p.Why.Node, now)
	if err != nil {
		return view.Page{}, err
	}
	return view.Page{
		Frame: view.Frame{
			Title: "Node " + name, OwnHead: true, Command: fleet.ShellLine("bunsen", "why", "node/"+name),
		},
		Regions: slices.Insert(p.Regions(now), 1, acts.Region()),
	}, nil
}

func comparePage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	q := r.URL.Query()
	p, err := sessionOf(v).Compare(ctx, q.Get("from"), q.Get("to"), now)
	if err != nil {
		return view.Page{}, found(err)
	}
	return view.Page{Frame: view.Frame{Title: "Compare", Here: "compare"}, Regions: p.Regions()}, nil
}

func commitPage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	pool, commit := r.PathValue("pool"), r.PathValue("commit")
	p, err := sessionOf(v).Commit(ctx, pool, commit, now)
	if err != nil {
		return view.Page{}, found(err)
	}
	same := fleet.ShellLine("bunsen", "diff", commit+"~1", commit)
	if strings.HasPrefix(commit, "rendered-") {
		same = fleet.ShellLine("bunsen", "trace", commit)
	}
	return view.Page{Frame: view.Frame{Title: p.Title, OwnHead: true, Command: same}, Regions: p.Regions()}, nil
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
			header.Set("Allow", s.allowed(r))
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
	case findAction(s.actions, r) != nil:
		s.serveAction(w, r, v, findAction(s.actions, r))
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
	isAction := r.Method == http.MethodPost && findAction(s.actions, r) != nil
	if !isAction && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return http.StatusMethodNotAllowed, errors.New("there is nothing to change at this address: it allows " +
			s.allowed(r))
	}
	if !isAction && r.ContentLength != 0 {
		return http.StatusBadRequest, errors.New("a request with a body is not allowed here")
	}
	if p := r.URL.Path; !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.ContainsFunc(p, isControl) {
		return http.StatusNotFound, errors.New("there is no page with that path")
	}
	if isAction {
		return s.checkAction(r)
	}
	if isNavigation(r) {
		return 0, nil
	}
	if err := s.origin.CheckSite(r); err != nil {
		return http.StatusForbidden, err
	}
	return 0, nil
}

func (s *Server) isForm(r *http.Request) bool {
	return s.forms && r.Method == http.MethodPost && (r.URL.Path == signInPath || r.URL.Path == signOutPath)
}

// isNavigation reports whether a user follows a link. Another site may link to pages of the console, but cannot read
// them.
func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document" && r.URL.Path != "/events"
}

func (s *Server) refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	limitWrite(w)
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// limitWrite ends a connection whose browser does not read.
func limitWrite(w http.ResponseWriter) {
	// A response without a connection has no deadline to set.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
}

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

// streamPath returns the path of a page's stream. The digest says from which regions the browser starts, and made when
// the page was made.
func streamPath(page, digest string, made time.Time) string {
	return "/events?" + url.Values{
		"page": {page}, "at": {digest},
		"made": {strconv.FormatInt(made.Unix(), 10)},
	}.Encode()
}

// errorPage says why the requested page cannot be shown, with the missing right and the role that grants it.
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

func (s *Server) notePage(v *visitor, title, text string) view.Page {
	return view.Page{
		Frame:   view.Frame{Title: title, Cluster: s.cluster, Viewer: v.name, SignOut: s.forms},
		Regions: view.Note(text),
	}
}

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

// longestFilter is in bytes.
const longestFilter = 200

// sessionOf returns the viewer with the cache of the user's reads; one that is no session of the console gets a cache
// for one page only.
func sessionOf(v Viewer) view.DetailSession {
	if p, ok := v.(pinned); ok {
		return view.DetailSession{Viewer: v, Cache: &p.details, Lines: p.lines}
	}
	return view.DetailSession{Viewer: v, Cache: &view.DetailCache{}}
}

// found makes a missing object an invalid input.
func found(err error) error {
	var none *view.NotFoundError
	if errors.As(err, &none) {
		return cli.Invalid(err)
	}
	return err
}

type file struct {
	content   []byte
	mediaType string
	tag       string
}

// serveFile lets the browser store the file, and ask each time whether it has changed.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	f, ok := s.files[name]
	if !ok {
		s.refuse(w, http.StatusNotFound, "there is no file with that path")
		return
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("ETag", f.tag)
	limitWrite(w)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", f.mediaType)
	_, _ = w.Write(f.content) // An error means that the browser has closed the connection.
}
