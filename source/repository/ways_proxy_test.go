package repository_test

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// join copies between two connections until one ends.
func join(a, b net.Conn) {
	var all sync.WaitGroup
	all.Go(func() { _, _ = io.Copy(a, b); a.Close() })
	_, _ = io.Copy(b, a)
	b.Close()
	all.Wait()
}

// routes are the addresses that the names of hosts have for a proxy.
type routes map[string]string

func (r routes) dial(addr string) (net.Conn, error) {
	if at, ok := r[addr]; ok {
		addr = at
	}
	return net.Dial("tcp", addr)
}

// connectProxy is an HTTP proxy with a password. It counts the tunnels.
func connectProxy(t *testing.T, known routes, own *pair, tunnels *atomic.Int64) string {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		basic := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
		if u, p, _ := basic.BasicAuth(); u != userName || p != password {
			http.Error(w, marker+p, http.StatusProxyAuthRequired)
			return
		}
		if r.Method != http.MethodConnect || strings.HasPrefix(r.Host, "forbidden") {
			http.Error(w, marker, http.StatusForbidden)
			return
		}
		to, err := known.dial(r.Host)
		if err != nil {
			http.Error(w, marker, http.StatusBadGateway)
			return
		}
		from, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		tunnels.Add(1)
		_, _ = io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n")
		join(from, to)
	})
	if own != nil {
		return "https://" + serveTLS(t, handler, *own, "")
	}
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// socksProxy is a SOCKS5 proxy (RFC 1928) with a password (RFC 1929). It counts the tunnels.
func socksProxy(t *testing.T, known routes, tunnels *atomic.Int64) string {
	t.Helper()
	return "socks5://" + listen(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		read := func(n int) []byte {
			b := make([]byte, n)
			_, _ = io.ReadFull(in, b)
			return b
		}
		head := read(2)
		if head[0] != 5 { // not SOCKS5
			return
		}
		if !slices.Contains(read(int(head[1])), 2) { // the client knows no password
			_, _ = c.Write([]byte{5, 0xff})
			return
		}
		_, _ = c.Write([]byte{5, 2})
		name := string(read(int(read(2)[1])))
		if word := string(read(int(read(1)[0]))); name != userName || word != password {
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
		to, err := known.dial(net.JoinHostPort(host, strconv.Itoa(int(port[0])<<8|int(port[1]))))
		if err != nil {
			_, _ = c.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
			return
		}
		tunnels.Add(1)
		_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		join(c, to)
	})
}

// proxyWays has proxies of each kind. The names of the hosts exist only for the proxies.
func proxyWays(t *testing.T, root string) chapter {
	private, public := keygen(t, "-t", "ed25519", "-N", "")
	shell := newSSHD(t, []string{public})
	own, proxyOwn := issue(t, soon(), "git.example.org"), issue(t, soon(), "127.0.0.1")
	web := serveTLS(t, guarded(backend(t, root)), own, "")
	known := routes{
		"git.example.org:443": web, "git.example.org:22": shell.addr,
		"closed.example.org:443": "127.0.0.1:1",
	}
	var tunnels atomic.Int64
	plain, secure, socks := connectProxy(t, known, nil, &tunnels), connectProxy(t, known, &proxyOwn, &tunnels),
		socksProxy(t, known, &tunnels)
	noProxy := listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-"+marker+"\r\n\r\n") })
	through := func(address string, changes ...string) data {
		return chapterSecret{"address": address, "username": userName, "password": password}.with(changes...)
	}
	https := chapterSecret{"username": userName, "password": password, "hosts": "git.example.org closed.example.org " +
		"forbidden.example.org", "ca.crt": own.certificate}.with()
	ssh := data{"identity": private, "known_hosts": "git.example.org " + shell.hostKey}
	url, shellURL, scp := "https://git.example.org/cfg", "ssh://"+shell.account+"@git.example.org"+root+"/cfg",
		shell.account+"@git.example.org:"+root+"/cfg"
	names := data{
		root: "/srv", shell.account + "@": "ACCOUNT@", strings.TrimPrefix(plain, "http://"): "PROXY",
		strings.TrimPrefix(secure, "https://"): "PROXY", strings.TrimPrefix(socks, "socks5://"): "PROXY",
		noProxy: "SSHD",
	}
	return chapter{"Proxies (proxySecretRef)", names, []way{
		{name: "https through an HTTP proxy", url: url, secret: https, proxy: through(plain)},
		{name: "https through an HTTPS proxy", url: url, secret: https, proxy: through(secure, "ca.crt", proxyOwn.certificate)},
		{name: "https through a SOCKS5 proxy", url: url, secret: https, proxy: through(socks)},
		{name: "ssh through an HTTP proxy, to port 22", url: shellURL, secret: ssh, proxy: through(plain)},
		{name: "ssh through an HTTPS proxy, to port 22", url: shellURL, secret: ssh, proxy: through(secure, "ca.crt", proxyOwn.certificate)},
		{name: "ssh through a SOCKS5 proxy, to port 22", url: shellURL, secret: ssh, proxy: through(socks)},
		{name: "user@host:path through a SOCKS5 proxy", url: scp, secret: ssh, proxy: through(socks)},
		{name: "A wrong password for an HTTP proxy", url: url, secret: https, proxy: through(plain, "password", "S3CR3T-wrong")},
		{name: "No password for an HTTP proxy", url: url, secret: https, proxy: data{"address": plain}},
		{name: "A wrong password for a SOCKS5 proxy", url: url, secret: https, proxy: through(socks, "password", "S3CR3T-wrong")},
		{name: "No password for a SOCKS5 proxy", url: url, secret: https, proxy: data{"address": socks}},
		{name: "A host that an HTTP proxy forbids", url: "https://forbidden.example.org/cfg", secret: https, proxy: through(plain)},
		{name: "A host that an HTTP proxy does not reach", url: "https://closed.example.org/cfg", secret: https, proxy: through(plain)},
		{name: "A host that a SOCKS5 proxy does not reach", url: "https://closed.example.org/cfg", secret: https, proxy: through(socks)},
		{name: "An HTTPS proxy with an unknown authority", url: url, secret: https, proxy: through(secure)},
		{name: "An HTTP proxy that is named as an HTTPS one", url: url, secret: https, proxy: through(strings.Replace(plain, "http:", "https:", 1))},
		{name: "A SOCKS5 proxy that is named as an HTTP one", url: url, secret: https, proxy: through(strings.Replace(socks, "socks5:", "http:", 1))},
		{name: "A server that is no proxy", url: url, secret: https, proxy: through("http://" + noProxy)},
		{name: "An HTTP proxy where nothing listens", url: url, secret: https, proxy: through("http://127.0.0.1:1")},
		{name: "A SOCKS5 proxy where nothing listens", url: url, secret: https, proxy: through("socks5://127.0.0.1:1")},
		{name: "A Secret without an address", url: url, secret: https, proxy: data{}},
		{name: "An address without a scheme", url: url, secret: https, proxy: data{"address": "proxy.example.org:3128"}},
		{name: "An address with another scheme", url: url, secret: https, proxy: data{"address": "ftp://proxy.example.org"}},
		{name: "An address with a password", url: url, secret: https, proxy: data{"address": "http://me:S3CR3T@proxy.example.org"}},
		{name: "An address with a path", url: url, secret: https, proxy: data{"address": "http://proxy.example.org/S3CR3T.pac"}},
		{name: "A Secret with other keys", url: url, secret: https, proxy: data{"url": "S3CR3T", "identity": "S3CR3T"}},
	}, func(t *testing.T) {
		if tunnels.Load() == 0 {
			t.Error("no connection went through a proxy")
		}
	}}
}
