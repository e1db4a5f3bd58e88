package console

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html/atom"

	xhtml "golang.org/x/net/html"

	"github.com/bunsen-os/bunsen/internal/console/view"
)

func everyPath(t *testing.T) []string {
	t.Helper()
	paths := []string{
		"/", "/events?page=%2F", "/nothing", "/static/console.js", "/static/nothing", "/sign-in",
		"/sign-out",
	}
	for _, a := range actions() {
		path := a.path("worker")
		paths = append(paths, path, "/events?page="+url.QueryEscape(path))
	}
	for _, r := range pages() {
		path := strings.NewReplacer("{", "", "}", "").Replace(r.pattern)
		paths = append(paths, path, "/events?page="+url.QueryEscape(path))
	}
	return paths
}

// TestAStrangerReadsNothing: without the cookie, every path answers the same line, whatever else a request has.
func TestAStrangerReadsNothing(t *testing.T) {
	p := play(t, update{pools: []string{"worker"}})
	owner := p.signIn(t)
	cookie := owner.Jar.Cookies(mustParse(t, p.base))[0]
	for _, path := range everyPath(t) {
		for _, headers := range [][]string{
			nil,
			{"Cookie: " + cookie.Name + "=" + cookie.Value[1:]},
			{"Cookie: " + cookie.Name + "="},
			{"Cookie: bunsen-console-1=" + cookie.Value},
			{"Authorization: Bearer " + cookie.Value},
			{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"},
		} {
			r := get(t, stranger(t), p.base+path, headers...)
			if allowed := r.status == 401 || path == "/events?page=%2F" && r.status == 403; !allowed &&
				!strings.HasPrefix(path, "/events") || r.status == 200 || strings.Contains(r.body, "worker") {
				t.Errorf("%s with %v: %d %s", path, headers, r.status, r.body)
			}
			checkHeaders(t, r)
		}
	}
	for _, path := range []string{
		"/?token=", "/?token=x", "/?token=" + cookie.Value,
		"/?token=" + strings.Repeat("A", 43),
	} {
		if r := get(t, stranger(t), p.base+path); r.status != 401 || len(r.header.Values("Set-Cookie")) > 0 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func checkHeaders(t *testing.T, r response) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "", "X-Frame-Options": "DENY",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("header %s is %q", name, got)
		}
	}
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestASecondUseOfTheAddressEndsTheSession: either user may be the thief. The owner's own browser may open the address
// again.
func TestASecondUseOfTheAddressEndsTheSession(t *testing.T) {
	p := play(t, update{pools: []string{"worker"}})
	if r := send(t, stranger(t), http.MethodHead, p.Address); r.status != 401 ||
		len(r.header.Values("Set-Cookie")) > 0 {
		t.Errorf("HEAD uses the token: %d", r.status)
	}
	owner := p.signIn(t)
	if r := get(t, owner, p.Address); r.status != http.StatusSeeOther {
		t.Errorf("the owner's second use: %d %s", r.status, r.body)
	}
	if r := get(t, owner, p.base+"/"); r.status != 200 || r.header.Get("Cache-Control") != "no-store" ||
		strings.Contains(r.body, "token") {
		t.Errorf("the owner: %d", r.status)
	}
	thief := get(t, stranger(t), p.Address)
	if thief.status != 401 || !strings.Contains(thief.body, "another browser used this address before") ||
		len(thief.header.Values("Set-Cookie")) > 0 {
		t.Errorf("the thief: %d %s", thief.status, thief.body)
	}
	if r := get(t, owner, p.base+"/"); r.status != 401 {
		t.Errorf("after that, the owner: %d", r.status)
	}
}

// TestRequestsThatNoPageSends: with a valid cookie, these still fail.
func TestRequestsThatNoPageSends(t *testing.T) {
	p := play(t, update{pools: []string{"worker"}})
	c := p.signIn(t)
	host := strings.TrimPrefix(p.base, "http://")
	_, port, _ := strings.Cut(host, ":")
	for _, x := range []struct {
		method, path string
		headers      []string
		want         int
	}{
		{"GET", "/", []string{"Host: evil.example:" + port}, 421},
		{"GET", "/", []string{"Host: localhost:" + port}, 421},
		{"GET", "/", []string{"Host: 127.0.0.1"}, 421},
		{"GET", "/", []string{"X-Forwarded-Host: evil.example", "Forwarded: host=evil.example"}, 200},
		{"GET", "/", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, 403},
		{"GET", "/", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{"GET", "/", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},
		{"GET", "/events?page=/", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"GET", "/events?page=/", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403},
		{"GET", "/events?page=/", []string{"Origin: http://127.0.0.1:1"}, 403},
		{"GET", "/events?page=/", []string{"Origin: null"}, 403},
		{"POST", "/", nil, 405},
		{"PUT", "/", nil, 405},
		{"DELETE", "/pool/worker", nil, 405},
		{"OPTIONS", "/", []string{"Origin: https://evil.example", "Access-Control-Request-Method: GET"}, 405},
		{"TRACE", "/", nil, 405},
		{"HEAD", "/events?page=/", nil, 405},
		{"GET", "/events", nil, 404},
		{"GET", "/events?page=https://evil.example/", nil, 404},
		{"GET", "/events?page=//evil.example/", nil, 404},
		{"GET", "/events?page=/events%3Fpage%3D/", nil, 404},
		{"GET", "/events?page=/static/console.js", nil, 404},
		{"GET", "/events?page=%2F%25zz", nil, 404},
		{"GET", "/static/../../etc/passwd", nil, 404},
		{"GET", "/static/%2e%2e/%2e%2e/etc/passwd", nil, 404},
		{"GET", "/static/..%2f..%2fetc%2fpasswd", nil, 404},
		{"GET", "/static/console.js%00.css", nil, 404},
		{"GET", "/static/", nil, 404},
		{"GET", "//evil.example/", nil, 404},
		{"GET", "/%00", nil, 404},
		{"GET", "/pool/..", nil, 404},
		{"GET", "/?" + strings.Repeat("a", 10<<10), nil, 414},
		{"GET", "/", []string{"X-Long: " + strings.Repeat("a", 64<<10)}, 431},
	} {
		r := send(t, c, x.method, p.base+x.path, x.headers...)
		if r.status != x.want || strings.Contains(r.body, "root:") || x.want != 200 && strings.Contains(r.body,
			"worker") {
			t.Errorf("%s %.60s %.80v: %d, want %d: %.200s", x.method, x.path, x.headers, r.status, x.want, r.body)
		}
	}
}

// TestFramingIsStrict: a request that two programs could read as different requests ends the connection.
func TestFramingIsStrict(t *testing.T) {
	p := play(t, update{pools: []string{"worker"}})
	c := p.signIn(t)
	host := strings.TrimPrefix(p.base, "http://")
	cookie := c.Jar.Cookies(mustParse(t, p.base))[0].String()
	smuggled := "GET /static/console.js HTTP/1.1\r\nHost: " + host + "\r\nCookie: " + cookie + "\r\n\r\n"
	for _, framing := range []string{
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
		fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)),
		"Transfer-Encoding: xchunked\r\n\r\n",
		"Transfer-Encoding : chunked\r\n\r\n",
		"X: a\r\n Content-Length: 9\r\nHost: two.example\r\n\r\n",
	} {
		conn, err := net.Dial("tcp4", host)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\n%s%s", host, cookie, framing, smuggled)
		answer, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 4") && !strings.HasPrefix(string(answer), "HTTP/1.1 501") ||
			strings.Count(string(answer), "HTTP/1.1 ") != 1 || strings.Contains(string(answer), "addEventListener") {
			t.Errorf("%q: %v\n%s", framing, err, answer)
		}
		_ = conn.Close()
	}
}

// TestNamesCannotLeaveTheirElement: hostile text of the cluster is text in pages and in streams.
func TestNamesCannotLeaveTheirElement(t *testing.T) {
	hostile := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
		"a\r\nevent: update\r\ndata: <b>x</b>\r\n\r\n", "a\rdata: x",
		`</section></main><script>`, `{{.}}`, `<!--parts-->`, "\u202egnp.exe", "a\x00b",
		`<div hx-get="/x" hx-trigger="load">`,
	}
	p := play(t, update{})
	c := p.signIn(t)
	page := get(t, c, p.base+"/")
	s := p.listen(t, c, streamOf(t, page.body))
	p.publish <- update{pools: hostile}
	_, data := s.next(t)
	p.publish <- update{pools: append(hostile, "last"), problem: nil}
	_, after := s.next(t)
	p.publish <- update{problem: fmt.Errorf("dial: %s", strings.Join(hostile, " "))}
	_, outage := s.next(t)
	for where, text := range map[string]string{
		"the page": get(t, c, p.base+"/").body, "the stream": data,
		"the next event": after, "a problem": outage,
	} {
		checkHarmless(t, where, text)
		if !strings.Contains(html.UnescapeString(text), "alert(1)") {
			t.Errorf("%s does not show the name", where)
		}
		if where != "the page" && strings.Contains(text, "\r") {
			t.Errorf("%s has a character that ends a line of an event", where)
		}
	}
	notFound := get(t, c, p.base+"/"+url.PathEscape(hostile[0]))
	checkHarmless(t, "a path", notFound.body)
}

// checkHarmless parses HTML, and finds scripts other than the console's, handlers, links to other sites and elements
// that the text brought.
func checkHarmless(t *testing.T, where, text string) {
	t.Helper()
	tokens := xhtml.NewTokenizer(strings.NewReader(text))
	for tokens.Next() != xhtml.ErrorToken {
		token := tokens.Token()
		if token.Type == xhtml.TextToken && strings.ContainsAny(token.Data, "\r\x00\u202e") {
			t.Errorf("%s has hidden characters: %q", where, token.Data)
		}
		if token.Type != xhtml.StartTagToken && token.Type != xhtml.SelfClosingTagToken {
			continue
		}
		for _, a := range token.Attr {
			isScript := token.DataAtom == atom.Script && !strings.HasPrefix(a.Val, "/static/") && a.Key == "src"
			isLink := (a.Key == "href" || a.Key == "src") && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val,
				"#")
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "hx-get" || isScript || isLink {
				t.Errorf("%s has <%s %s=%q>", where, token.Data, a.Key, a.Val)
			}
		}
		if token.DataAtom == atom.Script && len(token.Attr) == 0 || token.DataAtom == atom.Img ||
			token.DataAtom == atom.B {
			t.Errorf("%s has <%s>", where, token.Data)
		}
	}
}

// TestASessionHasAtMostSoManyStreams: one more is refused, and the end of one makes room.
func TestASessionHasAtMostSoManyStreams(t *testing.T) {
	p := play(t, update{pools: []string{"worker"}})
	c := p.signIn(t)
	path := p.base + "/events?page=%2F"
	var open []*http.Response
	for range mostStreams {
		r, err := c.Get(path)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		open = append(open, r)
	}
	defer func() {
		for _, r := range open {
			_ = r.Body.Close()
		}
	}()
	if r := get(t, c, path); r.status != http.StatusTooManyRequests {
		t.Errorf("one more stream: %d", r.status)
	}
	if r := get(t, c, p.base+"/"); r.status != 200 {
		t.Errorf("a page meanwhile: %d", r.status)
	}
	_ = open[0].Body.Close()
	for { // until the server knows of the closed connection
		r, err := c.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
		if r.StatusCode == http.StatusOK {
			break
		}
	}
	p.visitor.mu.Lock()
	defer p.visitor.mu.Unlock()
	if n := len(p.visitor.drawings); n != 1 {
		t.Errorf("%d pages are drawn for one path", n)
	}
}

// TestASlowReaderDelaysNobody: it gets no more than its connection holds, loses its stream after the time for one
// write, and others get every state meanwhile.
func TestASlowReaderDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		states := make(chan update)
		v := newVisitor("alice", nil, nil)
		v.feed = NewFeed(statesOf(follow(update{}, states)), linger)
		defer v.feed.Close()
		s := newServer("kind", Origin{Hosts: []string{"console"}}, always{v})
		slow, ended := pipe(t, s)
		fast, fastEnded := pipe(t, s)
		request := "GET /events?page=%2F HTTP/1.1\r\nHost: console\r\n\r\n"
		go func() { _, _ = io.WriteString(slow, request) }()
		go func() { _, _ = io.WriteString(fast, request) }()
		lines := bufio.NewScanner(fast)
		began := time.Now()
		for n := range 50 {
			name := fmt.Sprintf("pool-%d-", n)
			states <- update{pools: []string{name}}
			for lines.Scan() && !strings.Contains(lines.Text(), `id="pool-`+name) {
			}
		}
		if time.Since(began) > 0 {
			t.Errorf("the fast reader waited %s for the slow one", time.Since(began))
		}
		<-ended
		if took := time.Since(began); took > writeTime {
			t.Errorf("the slow reader has its stream for %s", took)
		}
		v.feed.Close()
		_, _ = slow.Close(), fast.Close()
		<-fastEnded
	})
}

// TestALargeClusterUsesAQuarterOfACore: a page that takes long is made less often, and shows the newest state in the
// end.
func TestALargeClusterUsesAQuarterOfACore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 400 * time.Millisecond
		states := make(chan update)
		v := newVisitor("alice", nil, nil)
		v.feed = NewFeed(statesOf(follow(update{}, states)), linger)
		defer v.feed.Close()
		s := newServer("kind", Origin{Hosts: []string{"console"}}, always{v})
		pages := 0
		s.routes = []route{{"/", func(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page,
			error,
		) {
			pages++
			time.Sleep(took)
			return overview(ctx, v, r, now)
		}}}
		browser, ended := pipe(t, s)
		go func() { _, _ = io.WriteString(browser, "GET /events?page=%2F HTTP/1.1\r\nHost: console\r\n\r\n") }()
		found := make(chan struct{})
		go func() {
			defer close(found)
			lines := bufio.NewScanner(browser)
			for lines.Scan() && !strings.Contains(lines.Text(), `id="pool-n40"`) {
			}
		}()
		for n := range 41 { // ten seconds
			states <- update{pools: []string{fmt.Sprintf("n%d", n)}}
			time.Sleep(250 * time.Millisecond)
		}
		<-found
		if pages < 5 || pages > 9 {
			t.Errorf("in about ten seconds, a page that takes %s is made %d times", took, pages)
		}
		v.feed.Close()
		_ = browser.Close()
		<-ended
	})
}

// pipe returns a connection to a server that has no buffer: what nobody reads is not written.
func pipe(t *testing.T, h http.Handler) (browser net.Conn, ended chan struct{}) {
	t.Helper()
	browser, server := net.Pipe()
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		defer server.Close()
		r, err := http.ReadRequest(bufio.NewReader(server))
		if err != nil {
			return
		}
		r.RequestURI = r.URL.RequestURI()
		h.ServeHTTP(&rawWriter{ResponseRecorder: httptest.NewRecorder(), conn: server}, r)
	}()
	return browser, ended
}

// rawWriter writes to a connection without HTTP.
type rawWriter struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (w *rawWriter) Write(b []byte) (int, error) { return w.conn.Write(b) }

func (w *rawWriter) WriteString(s string) (int, error) { return io.WriteString(w.conn, s) }

func (w *rawWriter) SetWriteDeadline(at time.Time) error                      { return w.conn.SetWriteDeadline(at) }
func (w *rawWriter) Flush()                                                   {}
func (a always) admit(http.ResponseWriter, *http.Request, time.Time) *visitor { return a.visitor }
func (a always) formToken(*http.Request, time.Time) string                    { return "" }

type always struct{ visitor *visitor }
