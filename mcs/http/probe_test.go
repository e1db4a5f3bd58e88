package http

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/mcs"
)

func TestWhatAProbeIsAnswered(t *testing.T) {
	ready, starting := filled(t), mcs.NewPools()
	for because, c := range map[string]struct {
		source        Source
		path          string
		remote, local string
		want          int
	}{
		"it serves":                            {ready, "/healthz", "192.0.2.1", "192.0.2.9", 200},
		"it serves, and is not ready":          {starting, "/healthz", "192.0.2.1", "192.0.2.9", 200},
		"it is ready":                          {ready, "/readyz", "192.0.2.1", "192.0.2.9", 200},
		"it is not ready":                      {starting, "/readyz", "192.0.2.1", "192.0.2.9", 503},
		"an address that may not ask":          {ready, "/readyz", "198.51.100.1", "192.0.2.9", 403},
		"another one that may not ask":         {ready, "/healthz", "198.51.100.1", "192.0.2.9", 403},
		"the kubelet of the host":              {ready, "/readyz", "198.51.100.9", "198.51.100.9", 200},
		"the kubelet of the host, too early":   {starting, "/readyz", "198.51.100.9", "198.51.100.9", 503},
		"an address of the host that may not":  {ready, "/config/worker", "198.51.100.9", "198.51.100.9", 403},
		"an address that may, for comparison":  {ready, "/config/worker", "192.0.2.1", "192.0.2.9", 200},
		"the kubelet of the host, of IPv6":     {ready, "/readyz", "2001:db8::1", "2001:db8::1", 200},
		"an address of IPv6 that may not":      {ready, "/readyz", "2001:db8::2", "2001:db8::1", 403},
		"an address that is not one, no more.": {ready, "/readyz", "", "", 403},
	} {
		o := open(c.source)
		o.Access.AllowFrom = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		h, _ := Routes(o)
		var local net.Addr
		if c.local != "" {
			local = &net.TCPAddr{IP: net.ParseIP(c.local), Port: 22623}
		}
		for _, method := range []string{"GET", "HEAD"} {
			r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local), method,
				c.path, nil)
			r.RemoteAddr = net.JoinHostPort(c.remote, "1")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s: %s is answered %d, want %d", because, method, w.Code, c.want)
			}
			if c.path == "/config/worker" {
				continue
			}
			want := http.Header{"Cache-Control": {"no-store"}, "Content-Length": {"0"}}
			if diff := cmp.Diff(want, w.Header()); diff != "" || w.Body.Len() > 0 {
				t.Errorf("%s: the answer says more than its status: %s %q", because, diff, w.Body)
			}
		}
	}
}

func TestProbesHaveALimitOfTheirOwn(t *testing.T) {
	now := noon
	o := open(filled(t))
	o.Now = func() time.Time { return now }
	o.Limits.Requests = Rate{PerSecond: 1, Burst: 2}
	h, _ := Routes(o)
	statuses := func(path string) (all [4]int) {
		for i := range all {
			all[i] = ask(h, "GET", path).StatusCode
		}
		return all
	}
	want := [4]int{200, 200, 503, 503}
	for _, path := range []string{"/config/worker", "/readyz"} {
		if got := statuses(path); got != want {
			t.Errorf("%s is answered %v", path, got)
		}
	}
	if r := ask(h, "GET", "/healthz"); r.StatusCode != 503 || text(t, r) != "" {
		t.Errorf("both probes do not have one budget: %d", r.StatusCode)
	}
	now = now.Add(time.Second)
	if r := ask(h, "GET", "/readyz"); r.StatusCode != 200 {
		t.Errorf("a second later a probe is answered %d", r.StatusCode)
	}
}

func TestNoAnswerNamesTheProgram(t *testing.T) {
	server := start(t, Server{Handler: openRoutes(filled(t)), Bounds: patient})
	for _, path := range []string{"/", "/healthz", "/readyz", "/config/worker", "/config/nothing", "/metrics"} {
		r, err := server.client("127.0.0.9").Get(server.url(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, header := range []string{"Server", "X-Powered-By", "Via"} {
			if got := r.Header.Get(header); got != "" {
				t.Errorf("%s: the answer has %s: %s", path, header, got)
			}
		}
		if known := path == "/healthz" || path == "/readyz" ||
			path == "/config/worker"; (r.StatusCode == 200) != known {
			t.Errorf("%s is answered %d", path, r.StatusCode)
		}
	}
}
