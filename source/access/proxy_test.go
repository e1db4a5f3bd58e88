package access_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/bunsen-os/bunsen/source/access"
)

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

// TestAProxyThatHangs: the end of the context ends the wait.
func TestAProxyThatHangs(t *testing.T) {
	arrived := make(chan struct{})
	addr := listen(t, func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		close(arrived)
		_, _ = io.Copy(io.Discard, c)
	})
	p, err := access.ParseProxy(map[string][]byte{"address": []byte("http://" + addr)})
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
		_, err := access.ParseProxy(map[string][]byte{"address": []byte(address)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "S3CR3T")) {
			t.Errorf("%q: got %v, want %q", address, err, want)
		}
	}
	_, err := access.ParseProxy(map[string][]byte{"url": []byte("S3CR3T"), "identity": []byte("S3CR3T")})
	if err == nil || !strings.Contains(err.Error(), `"identity", "url" (write address)`) ||
		strings.Contains(err.Error(), "S3CR3T") {
		t.Errorf("unknown keys: %v", err)
	}
	if p, err := access.ParseProxy(nil); p != nil || err != nil {
		t.Errorf("no Secret: %v, %v", p, err)
	}
}
