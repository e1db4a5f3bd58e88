package dial_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/dial"
)

// echo answers each line with itself, after a greeting that comes with the proxy's answer.
func echo(t *testing.T) string {
	t.Helper()
	return listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "hello\n")
		_, _ = io.Copy(c, c)
	})
}

// listen serves each connection until the test ends.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { l.Close() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); serve(c) })
		}
	})
	return l.Addr().String()
}

// join copies between two connections until one ends.
func join(a, b net.Conn) {
	var all sync.WaitGroup
	all.Go(func() { _, _ = io.Copy(a, b); a.Close() })
	_, _ = io.Copy(b, a)
	b.Close()
	all.Wait()
}

// connectProxy is an HTTP proxy with a password. It counts the tunnels.
func connectProxy(t *testing.T, secure bool) (*httptest.Server, map[string][]byte) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		basic := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
		if u, p, _ := basic.BasicAuth(); u != "me" || p != "S3CR3T" {
			http.Error(w, "INTERNAL "+p, http.StatusProxyAuthRequired)
			return
		}
		if r.Method != http.MethodConnect || strings.HasPrefix(r.Host, "forbidden") {
			http.Error(w, "INTERNAL", http.StatusForbidden)
			return
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, "INTERNAL", http.StatusBadGateway)
			return
		}
		from, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n")
		join(from, to)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	secret := map[string][]byte{"username": []byte("me"), "password": []byte("S3CR3T")}
	if secure {
		s.StartTLS()
		secret["ca.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	secret["address"] = []byte(s.URL)
	return s, secret
}

// socksProxy is a SOCKS5 proxy (RFC 1928) with a password (RFC 1929).
func socksProxy(t *testing.T) map[string][]byte {
	t.Helper()
	addr := listen(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		read := func(n int) []byte {
			b := make([]byte, n)
			_, _ = io.ReadFull(in, b)
			return b
		}
		read(int(read(2)[1])) // the methods that the client knows
		_, _ = c.Write([]byte{5, 2})
		user := string(read(int(read(2)[1])))
		password := string(read(int(read(1)[0])))
		if user != "me" || password != "S3CR3T" {
			_, _ = c.Write([]byte{1, 1})
			return
		}
		_, _ = c.Write([]byte{1, 0})
		var host string
		switch read(4)[3] {
		case 1:
			host = net.IP(read(4)).String()
		case 3:
			host = string(read(int(read(1)[0])))
		}
		port := read(2)
		to, err := net.Dial("tcp", net.JoinHostPort(host, itoa(int(port[0])<<8|int(port[1]))))
		if err != nil {
			_, _ = c.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
			return
		}
		_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		join(c, to)
	})
	return map[string][]byte{"address": []byte("socks5://" + addr), "username": []byte("me"), "password": []byte("S3CR3T")}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

func with(secret map[string][]byte, key, value string) map[string][]byte {
	out := map[string][]byte{}
	for k, v := range secret {
		out[k] = v
	}
	out[key] = []byte(value)
	return out
}

func without(secret map[string][]byte, key string) map[string][]byte {
	out := with(secret, key, "")
	delete(out, key)
	return out
}

func TestThroughEachKindOfProxy(t *testing.T) {
	_, plain := connectProxy(t, false)
	_, secure := connectProxy(t, true)
	socks := socksProxy(t)
	noProxy := listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-INTERNAL\r\n\r\n") })
	there := echo(t)
	for name, test := range map[string]struct {
		secret map[string][]byte
		to     string
		words  string // "" for success
		reason string
	}{
		"http":                     {plain, there, "", ""},
		"https":                    {secure, there, "", ""},
		"socks5":                   {socks, there, "", ""},
		"socks5, a host's name":    {socks, strings.Replace(there, "127.0.0.1", "localhost", 1), "", ""},
		"http, wrong password":     {with(plain, "password", "S3CR3T2"), there, "the proxy requires other credentials", v1alpha1.ReasonAuthentication},
		"socks5, wrong password":   {with(socks, "password", "S3CR3T2"), there, "authentication failed", ""},
		"http, a forbidden host":   {plain, "forbidden:22", "the proxy refuses the connection: 403 Forbidden", ""},
		"http, no such host":       {plain, "127.0.0.1:1", "the proxy refuses the connection: 502 Bad Gateway", ""},
		"socks5, no such host":     {socks, "127.0.0.1:1", "connection refused", ""},
		"https, unknown authority": {without(secure, "ca.crt"), there, "certificate", ""},
		"no proxy there":           {with(plain, "address", "http://127.0.0.1:1"), there, "connecting to the proxy http://127.0.0.1:1", ""},
		"not a proxy":              {with(plain, "address", "http://"+noProxy), there, "the answer is not one of an HTTP proxy", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := dial.ParseProxy(test.secret)
			if err != nil {
				t.Fatal(err)
			}
			c, err := p.DialContext(t.Context(), "tcp", test.to)
			if test.words != "" {
				if err == nil || !strings.Contains(err.Error(), test.words) || strings.Contains(err.Error(), "S3CR3T") || strings.Contains(err.Error(), "INTERNAL") {
					t.Errorf("got %v, want %q", err, test.words)
				}
				if got := fault.Of(err, "").Reason; got != test.reason {
					t.Errorf("the reason is %q", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, "line\n")
			in := bufio.NewReader(c)
			for _, want := range []string{"hello\n", "line\n"} {
				if got, err := in.ReadString('\n'); got != want || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
}

// TestAProxyThatHangs: the end of the context ends the wait.
func TestAProxyThatHangs(t *testing.T) {
	arrived := make(chan struct{})
	addr := listen(t, func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		close(arrived)
		_, _ = io.Copy(io.Discard, c)
	})
	p, err := dial.ParseProxy(map[string][]byte{"address": []byte("http://" + addr)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := p.DialContext(ctx, "tcp", "git.example.org:22"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSecretsOfProxies(t *testing.T) {
	for address, want := range map[string]string{
		"http://proxy.example.org:3128":       "",
		"https://proxy.example.org/":          "",
		"socks5://proxy.example.org":          "",
		"socks5h://[2001:db8::1]:1080":        "",
		"":                                    "must be http://host:port",
		"proxy.example.org:3128":              "must be http://host:port",
		"ftp://proxy.example.org":             "must be http://host:port",
		"http://":                             "must be http://host:port",
		"http://me:S3CR3T@proxy.example.org":  "holds a user",
		"http://proxy.example.org/?x=S3CR3T":  "more than a host and a port",
		"http://proxy.example.org/pac.S3CR3T": "more than a host and a port",
	} {
		_, err := dial.ParseProxy(map[string][]byte{"address": []byte(address)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3CR3T")) {
			t.Errorf("%q: got %v, want %q", address, err, want)
		}
	}
	_, err := dial.ParseProxy(map[string][]byte{"url": []byte("S3CR3T"), "identity": []byte("S3CR3T")})
	if err == nil || !strings.Contains(err.Error(), `"identity", "url" (write address)`) || strings.Contains(err.Error(), "S3CR3T") {
		t.Errorf("unknown keys: %v", err)
	}
	if p, err := dial.ParseProxy(nil); p != nil || err != nil {
		t.Errorf("no Secret: %v, %v", p, err)
	}
}
