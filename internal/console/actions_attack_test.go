package console

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

const formType = "Content-Type: application/x-www-form-urlencoded"

// actionPaths are the forms of a stage.
func actionPaths() (paths []string) {
	for _, a := range actions() {
		paths = append(paths, a.path(map[string]string{
			kube.KindPool: "edge", kube.KindNode: "n1", kube.KindSource: "os",
		}[a.kind]))
	}
	return paths
}

// everyField is what each form accepts, without the token.
func everyField() url.Values {
	return url.Values{"because": {"an attacker"}, "at": {oldRevision}, "until": {"2h"}, "open-for": {"2h"}}
}

// TestAnActionNeedsTheFormOfTheSession: what lacks the cookie, the origin, the token of the same session or the form of
// a request changes nothing, in any state of the objects.
func TestAnActionNeedsTheFormOfTheSession(t *testing.T) {
	state := func(p *parts) {
		paused(p)
		held(p)
		suspended(p)
		failed(p)
	}
	s, other := newStage(t, state), newStage(t, state)
	before := s.state(t)
	for _, path := range actionPaths() {
		own := s.token(t, path)
		with := func(token string) string {
			form := everyField()
			form.Set(fieldToken, token)
			return form.Encode()
		}
		for sentence, c := range map[string]struct {
			client  *http.Client
			path    string
			body    string
			headers []string
			want    int
		}{
			"no cookie": {stranger(t), path, with(own), []string{formType, "Origin: " + s.base}, 401},
			"another cookie": {
				stranger(t), path, with(own),
				[]string{formType, "Cookie: " + s.store().Cookie + "=" + strings.Repeat("A", 43)},
				401,
			},
			"another site": {s.browser, path, with(own), []string{formType, "Origin: https://evil.example"}, 403},
			"another port of this machine": {
				s.browser, path, with(own), []string{formType, "Origin: http://127.0.0.1:1"}, 403,
			},
			"another site that hides its origin": {
				s.browser, path, with(own), []string{formType, "Origin: null", "Sec-Fetch-Site: cross-site"}, 403,
			},
			"a link to a form of another site": {
				s.browser, path, with(own),
				[]string{
					formType, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document",
				},
				403,
			},
			"another host":        {s.browser, path, with(own), []string{formType, "Host: evil.example"}, 421},
			"no token":            {s.browser, path, everyField().Encode(), []string{formType}, 403},
			"an empty token":      {s.browser, path, with(""), []string{formType}, 403},
			"a wrong token":       {s.browser, path, with(own[1:] + "A"), []string{formType}, 403},
			"another user's":      {s.browser, path, with(other.token(t, path)), []string{formType}, 403},
			"the cookie as token": {s.browser, path, with(s.cookie(t)), []string{formType}, 403},
			"the token in the address alone": {
				s.browser, path + "?" + with(own), everyField().Encode(), []string{formType}, 403,
			},
			"the fields in the address alone, and the token twice": {
				s.browser, path + "?" + with(own), fieldToken + "=x&" + fieldToken + "=" + own, []string{formType}, 403,
			},
			"JSON": {
				s.browser, path, `{"because":"an attacker","form-token":"` + own + `"}`,
				[]string{"Content-Type: application/json"},
				415,
			},
			"plain text":        {s.browser, path, with(own), []string{"Content-Type: text/plain"}, 415},
			"multipart":         {s.browser, path, with(own), []string{"Content-Type: multipart/form-data; boundary=x"}, 415},
			"no type":           {s.browser, path, with(own), nil, 415},
			"a large form":      {s.browser, path, with(own) + strings.Repeat("&a=b", 3000), []string{formType}, 413},
			"a form half coded": {s.browser, path, with(own) + "&x=%zz", []string{formType}, 413},
			"a path around":     {s.browser, strings.Replace(path, "/", "//", 1), with(own), []string{formType}, 405},
			"a path below":      {s.browser, path + "/", with(own), []string{formType}, 405},
		} {
			r := post(t, c.client, s.base+c.path, c.body, c.headers...)
			if r.status != c.want || strings.Contains(r.body, own) {
				t.Errorf("%s: %s: %d, want %d: %.300s", path, sentence, r.status, c.want, r.body)
			}
			if after := s.state(t); after != before {
				t.Fatalf("%s: %s changes\n%s to\n%s", path, sentence, before, after)
			}
		}
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			r := send(t, s.browser, method, s.base+path+"?"+with(own))
			if want := map[string]int{"GET": 200, "HEAD": 200}[method]; want != r.status && r.status != 405 {
				t.Errorf("%s %s: %d", method, path, r.status)
			}
			if allow := r.header.Get("Allow"); r.status == 405 && allow != "GET, HEAD, POST" {
				t.Errorf("%s %s allows %q", method, path, allow)
			}
			if method == "GET" && strings.Contains(r.body, "an attacker") {
				t.Errorf("a link fills in the form of %s", path)
			}
			if after := s.state(t); after != before {
				t.Fatalf("%s %s changes\n%s to\n%s", method, path, before, after)
			}
		}
		if r := get(t, s.browser, s.base+"/events?page="+url.QueryEscape(path)); r.status != 404 {
			t.Errorf("%s has a stream: %d", path, r.status)
		}
	}
	if events := s.events(t); len(events) > 0 {
		t.Errorf("events: %q", events)
	}
}

func (s *stage) store() *SessionStore[*visitor] { return s.server.access.(*loopback).store }

func (s *stage) cookie(t *testing.T) string {
	t.Helper()
	return s.browser.Jar.Cookies(mustParse(t, s.base))[0].Value
}

// TestATokenOfAnEarlierSessionIsOfNoUse: each session has its own, and it ends with the session.
func TestATokenOfAnEarlierSessionIsOfNoUse(t *testing.T) {
	s := newStage(t, nil)
	earlier := s.token(t, "/pool/edge/pause")
	s.store().CloseIf(func(*visitor) bool { return true })
	cookie, err := s.store().Open(zeroes{}, s.visitor, time.Now(), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s.browser.Jar.SetCookies(mustParse(t, s.base), []*http.Cookie{cookie})
	before := s.state(t)
	form := url.Values{fieldToken: {earlier}, "because": {"x"}}
	r := post(t, s.browser, s.base+"/pool/edge/pause", form.Encode(), formType)
	if r.status != 403 || !strings.Contains(r.body, "not from your present session") || s.state(t) != before {
		t.Errorf("%d\n%s", r.status, r.body)
	}
	if now := s.token(t, "/pool/edge/pause"); now == earlier {
		t.Error("both sessions have one token")
	}
}

// zeroes is a source of bytes that are not random.
type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestAUserWithoutRightsChangesNothing: the forms say which role is missing, and the API server decides, also where the
// console's answer about rights is old.
func TestAUserWithoutRightsChangesNothing(t *testing.T) {
	s := newStage(t, paused)
	before := s.state(t)
	s.may = func(string) bool { return false }
	for _, path := range actionPaths() {
		page := get(t, s.browser, s.base+path)
		if page.status != 403 || !strings.Contains(page.body, "ClusterRole bunsen-operator grants that right") ||
			strings.Contains(page.body, "<form method=\"post\" action=\""+path) {
			t.Errorf("%s: %d\n%s", path, page.status, page.body)
		}
		form := everyField()
		form.Set(fieldToken, s.store().FormToken(requestWith(t, s.cookie(t), s.store().Cookie), time.Now()))
		if r := post(t, s.browser, s.base+path, form.Encode(), formType); r.status != 403 {
			t.Errorf("%s: %d\n%s", path, r.status, r.body)
		}
	}
	if after := s.state(t); after != before || len(s.events(t)) > 0 {
		t.Errorf("changed\n%s to\n%s", before, after)
	}
}

func requestWith(t *testing.T, value, name string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: name, Value: value})
	return r
}

// TestAReasonIsTextOnly: line ends, elements, commands and hidden characters in a reason reach no header, no element,
// no event of a stream and no line of their own.
func TestAReasonIsTextOnly(t *testing.T) {
	s := newStage(t, nil)
	hostile := []string{
		"x\r\nSet-Cookie: a=b\r\n\r\n<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "a\revent: update",
		"$(reboot)`reboot`'; reboot #", "::error::x", "\u202etxt.exe", "{{.}}", "a\x00b",
	}
	for _, because := range hostile {
		r := s.submit(t, "/pool/edge/pause", url.Values{"because": {because}})
		location := r.header.Get("Location")
		if r.status != http.StatusSeeOther || r.header.Get("Set-Cookie") != "" ||
			!strings.HasPrefix(location, "/pool/edge?done=") || len(location) > 30 {
			t.Fatalf("%q: %d %v\n%s", because, r.status, r.header, r.body)
		}
		for where, text := range map[string]string{
			"the next page": get(t, s.browser, s.base+location).body,
			"the form":      get(t, s.browser, s.base+"/pool/edge/pause").body,
		} {
			if strings.Contains(text, "<script>alert") || strings.Contains(text, "<img src=x") ||
				strings.ContainsAny(text, "\r\x00\u202e") {
				t.Errorf("%q: %s has it as it is:\n%s", because, where, text)
			}
		}
		if r := s.submit(t, "/pool/edge/pause", url.Values{
			"because": {because},
			"until":   {because},
		}); r.status != 422 || strings.Contains(r.body, "<img src=x") || strings.Contains(r.body, "<script>alert") {
			t.Errorf("%q: the form comes back as %d\n%s", because, r.status, r.body)
		}
	}
	for _, event := range s.events(t) {
		if strings.ContainsAny(event, "\r\n\x00\u202e") {
			t.Errorf("event %q", event)
		}
	}
	if text := s.state(t); strings.Contains(strings.TrimSuffix(text, "\n"), "\n") {
		t.Errorf("an annotation has several lines: %q", text)
	}
}

// TestOddNamesStayNames: the name of a pool is one part of a path, and nothing else of an address or of a command.
func TestOddNamesStayNames(t *testing.T) {
	for _, name := range []string{
		"a/pause", "..", ".", "a b", "a?done=1", "a#b", "a%2fb", "a\r\nb", "$(reboot)", "<b>", "a\x00b",
		"http://evil.example", "a'b", "-x", "--kubeconfig=x",
	} {
		s := newStage(t, func(p *parts) { p.pool.Name = name })
		path := "/pool/" + url.PathEscape(name) + "/pause"
		page := get(t, s.browser, s.base+path)
		if page.status == 404 {
			continue // No address of the console names this pool.
		}
		found := tokenInput.FindStringSubmatch(page.body)
		if page.status != 200 || found == nil || strings.Contains(page.body, "<b>") ||
			!strings.Contains(page.body, "bunsen pause ") || strings.Contains(page.body, "<code>bunsen pause pool/$(") {
			t.Errorf("%q: %d\n%s", name, page.status, page.body)
			continue
		}
		form := hidden(t, path, page.body)
		form.Set("because", "x")
		r := post(t, s.browser, s.base+path, form.Encode(), formType)
		want := "/pool/" + url.PathEscape(name) + "?done=1"
		if location := r.header.Get("Location"); r.status != 303 || location != want {
			t.Errorf("%q: %d, to %q and not to %q\n%s", name, r.status, location, want, r.body)
		}
		if page := get(t, s.browser, s.base+want); page.status != 200 || !strings.Contains(page.body, `class="done"`) {
			t.Errorf("%q: the next page has no note: %d\n%s", name, page.status, page.body)
		}
	}
}

// TestABodyOfUnknownLength: the limit also counts what a form sends without saying how much, however it ends.
func TestABodyOfUnknownLength(t *testing.T) {
	s := newStage(t, nil)
	form := url.Values{fieldToken: {s.token(t, "/pool/edge/pause")}, "because": {"x"}}.Encode()
	host := strings.TrimPrefix(s.base, "http://")
	for _, end := range []string{"0\r\n\r\n", ""} {
		conn, err := net.Dial("tcp4", host)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /pool/edge/pause HTTP/1.1\r\nHost: %s\r\nCookie: %s=%s\r\n%s\r\nTransfer-Encoding: "+
			"chunked\r\n\r\n%x\r\n%s\r\n", host, s.store().Cookie, s.cookie(t), formType, len(form), form)
		for range 3 {
			fmt.Fprintf(conn, "1000\r\n%s\r\n", strings.Repeat("&a=b", 0x400))
		}
		fmt.Fprint(conn, end)
		answer, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 413") || !strings.HasPrefix(s.state(t), "false") {
			t.Errorf("with the end %q: %q, %v", end, answer, err)
		}
		_ = conn.Close()
	}
}
