package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/console/view"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// after which a stream without changes sends an event, so that proxies keep the connection, and the page knows that
	// it has one
	heartbeat = 15 * time.Second
	// for one write to a browser
	writeTime = 20 * time.Second
	// for a page to be drawn for its stream
	drawTime = 30 * time.Second
	// the maximum pause of a stream after a page that took long to draw
	mostRest = time.Second
	// after the answer with a page, for which its stream may start from the regions of that answer
	startTime = time.Minute
)

// startOf returns the digest of the regions that the browser has; empty if they are unknown: the browser repeats the
// path of a stream after hours, when the regions have changed several times.
func startOf(r *http.Request, now time.Time) string {
	// The script of the page cannot set the header, so it sends the query field.
	if last := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("last")); last != "" {
		return last
	}
	made, err := strconv.ParseInt(r.URL.Query().Get("made"), 10, 64)
	if err != nil || now.Sub(time.Unix(made, 0)).Abs() > startTime {
		return ""
	}
	return r.URL.Query().Get("at")
}

// alive: an event that does not change the page
const alive = "event: alive\ndata: -\n\n"

// unknown: the digest of no page
const unknown = "-"

type stream struct {
	visitor *visitor
	w       http.ResponseWriter
	// the request for the page, and its path with the query
	page *http.Request
	path string
	make pageFunc
	// the regions that the browser has; nil if only their digest is known
	sent   []view.Region
	digest string
	wrote  time.Time
}

func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, v *visitor) {
	if r.Method != http.MethodGet {
		s.refuse(w, http.StatusMethodNotAllowed, "a stream allows GET only")
		return
	}
	path := r.URL.Query().Get("page")
	page, make, err := s.pageRequest(r, path)
	if err != nil {
		s.refuse(w, http.StatusNotFound, err.Error())
		return
	}
	leave, ok := v.join(path)
	if !ok {
		s.refuse(w, http.StatusTooManyRequests, fmt.Sprintf("this session has %d open pages: close some", mostStreams))
		return
	}
	defer leave()
	defer v.feed.Hold()()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no")
	st := &stream{visitor: v, w: w, page: page, path: path, make: make, digest: startOf(r, time.Now())}
	st.run(r.Context())
}

var errNoPage = errors.New("there is no page with that path")

func (s *Server) pageRequest(r *http.Request, path string) (*http.Request, pageFunc, error) {
	page, err := requestFor(r, path)
	if err != nil {
		return nil, nil, err
	}
	make := find(s.routes, page)
	if make == nil {
		return nil, nil, errNoPage
	}
	return page, make, nil
}

// requestFor returns the request for another path of this server.
func requestFor(r *http.Request, path string) (*http.Request, error) {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		return nil, errNoPage
	}
	target, err := url.ParseRequestURI(path)
	if err != nil || target.Host != "" || target.Fragment != "" {
		return nil, errNoPage
	}
	page := r.Clone(r.Context())
	page.URL, page.RequestURI, page.Form = target, path, nil
	return page, nil
}

// run sends the newest state whenever the browser is ready for it, and the event alive in between. Most states change
// nothing on the page.
func (st *stream) run(ctx context.Context) {
	if st.write("retry: 2000\n\n") != nil {
		return
	}
	var version uint64
	for {
		next, cancel := context.WithDeadline(ctx, st.wrote.Add(heartbeat))
		s, err := st.visitor.feed.Next(next, version)
		cancel()
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrClosed):
			return
		case err != nil:
			err = st.write(alive)
		default:
			version = s.Version
			began := time.Now()
			err = st.send(ctx, s)
			if err == nil && time.Since(st.wrote) > heartbeat {
				err = st.write(alive)
			}
			if err == nil {
				pauseAfter(ctx, time.Since(began))
			}
		}
		if err != nil {
			return // The browser has closed the connection, or does not read.
		}
	}
}

// pauseAfter waits after a page that took long, so that a page that takes up to a third of mostRest uses a quarter of
// a core. Changes during the pause become one.
func pauseAfter(ctx context.Context, took time.Duration) { sleep(ctx, min(3*took, mostRest)) }

// send sends the regions that differ from those that the browser has.
func (st *stream) send(ctx context.Context, s Snapshot[*state]) error {
	d := st.visitor.shared(st.path, s, func() drawn {
		// Other streams also wait for this page.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drawTime)
		defer cancel()
		return st.visitor.draw(st.page.WithContext(ctx), st.make, s)
	})
	if d.err != nil {
		return st.sendProblem(d.err)
	}
	var changed []view.Region
	if st.sent == nil {
		changed = view.RegionsSince(st.digest, d.page.Regions)
	} else {
		changed = view.ChangedRegions(st.sent, d.page.Regions)
	}
	st.sent, st.digest = d.page.Regions, d.digest
	if len(changed) == 0 {
		return nil
	}
	return st.write(event(d.digest, view.SwapRegions(changed)))
}

// sendProblem replaces the first region only, so that the rest of the page stays.
func (st *stream) sendProblem(problem error) error {
	first := view.Problem("This page shows an earlier state. It continues by itself. " + problem.Error())
	if len(st.sent) == 0 {
		st.digest = unknown // The next page is sent with all regions.
	} else {
		if len(view.ChangedRegions(st.sent[:1], []view.Region{first})) == 0 {
			return nil
		}
		st.sent = append([]view.Region{first}, st.sent[1:]...)
		st.digest = view.RegionDigest(st.sent)
	}
	return st.write(event(st.digest, view.SwapRegions([]view.Region{first})))
}

// event returns a server-sent event. A carriage return would end a line, so a text with one could begin an event of its
// own.
func event(id, html string) string {
	var b strings.Builder
	b.WriteString("event: update\nid: " + id + "\n")
	for line := range strings.SplitSeq(strings.ReplaceAll(html, "\r", "&#13;"), "\n") {
		b.WriteString("data: " + line + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

func (st *stream) write(text string) error {
	c := http.NewResponseController(st.w)
	if err := c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return fmt.Errorf("limiting the time of a write: %w", err)
	}
	if _, err := io.WriteString(st.w, text); err != nil {
		return fmt.Errorf("writing to the browser: %w", err)
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("writing to the browser: %w", err)
	}
	st.wrote = time.Now()
	return nil
}

// route is the pattern of a path, such as `/pool/{pool}`, with its page.
type route struct {
	pattern string
	page    pageFunc
}

// find returns the page for the path of a request, and sets the values of its pattern on the request; nil if there is
// none.
func find(routes []route, r *http.Request) pageFunc {
	for _, route := range routes {
		if values, ok := match(route.pattern, r.URL.EscapedPath()); ok {
			for name, value := range values {
				r.SetPathValue(name, value)
			}
			return route.page
		}
	}
	return nil
}

// match compares a path with a pattern, part by part. A value is one part, and may contain an escaped slash. It is
// neither empty nor a path, and has no control characters.
func match(pattern, path string) (map[string]string, bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	values := map[string]string{}
	for i, part := range want {
		name, isValue := strings.CutPrefix(part, "{")
		if !isValue {
			if part != got[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(got[i])
		if err != nil || value == "" || value == "." || value == ".." || strings.ContainsFunc(value, isControl) {
			return nil, false
		}
		values[strings.TrimSuffix(name, "}")] = value
	}
	return values, true
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Viewer reads the cluster with the rights of one signed-in user.
type Viewer interface {
	// Name of the user.
	Name() string
	// Cluster returns all objects that a status shows, from the viewer's own watches. Do not change them.
	Cluster(ctx context.Context) (fleet.Cluster, error)
	// Reader reads from the API server, with the viewer's own rights.
	Reader() client.Reader
}

// pageFunc makes a page for a viewer and a request. It is called again after each change of the cluster, for the page's
// stream.
type pageFunc func(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error)
