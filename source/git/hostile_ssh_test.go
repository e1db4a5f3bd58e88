package git_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/git"
)

// hostileSSH is an ssh server that lets every key in, and answers each command as the test says.
func hostileSSH(t *testing.T, change func(*ssh.ServerConfig), before func(net.Conn), answer func(ssh.Channel),
) *shellServer {
	t.Helper()
	host, _ := newKey(t)
	_, private := newKey(t)
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil },
	}
	config.AddHostKey(host)
	if change != nil {
		change(config)
	}
	l := listen(t)
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { l.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		if before != nil {
			before(conn)
		}
		sc, channels, requests, err := ssh.NewServerConn(conn, config)
		if err != nil {
			return
		}
		defer sc.Close()
		go ssh.DiscardRequests(requests)
		for nc := range channels {
			ch, rs, err := nc.Accept()
			if err != nil {
				return
			}
			for r := range rs {
				_ = r.Reply(true, nil)
				if r.Type == "exec" {
					all.Go(func() { answer(ch) })
				}
			}
		}
	}
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serve(conn) })
		}
	})
	return &shellServer{
		addr: l.Addr().String(), identity: armored(t, private, ""), known: knownLine(t, l.Addr().String(), host),
	}
}

// TestAHostileSSHServer: whatever a server sends without end, a limit ends it, not the deadline.
func TestAHostileSSHServer(t *testing.T) {
	repeat := func(w io.Writer, text string) {
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
	const version2, end = "000eversion 2\n", "0000"
	for name, test := range map[string]struct {
		change func(*ssh.ServerConfig)
		before func(net.Conn)
		answer func(ssh.Channel)
		words  string
	}{
		"lines before the version": {nil, func(c net.Conn) { repeat(c, "INTERNAL-4711\r\n") }, nil, ""},
		"a version without end":    {nil, func(c net.Conn) { repeat(c, "SSH-2.0-INTERNAL-4711") }, nil, ""},
		"banners without end": {func(c *ssh.ServerConfig) {
			c.PreAuthConnCallback = func(conn ssh.ServerPreAuthConn) {
				for conn.SendAuthBanner(strings.Repeat("INTERNAL-4711 ", 1000)) == nil {
				}
			}
		}, nil, nil, "more than 1024 KiB before the login"},
		"capabilities without end": {nil, nil, func(ch ssh.Channel) {
			_, _ = io.WriteString(ch, version2)
			repeat(ch, "000cagent=x\n")
		}, "more than 64 KiB of capabilities"},
		"refs without end": {nil, nil, func(ch ssh.Channel) {
			_, _ = io.WriteString(ch, version2+end)
			repeat(ch, strings.Repeat("003c"+strings.Repeat("a", 40)+" refs/heads/main", 1000))
		}, "more than 16384 KiB of refs"},
		"refs of version 0 without end": {nil, nil, func(ch ssh.Channel) {
			_, _ = io.WriteString(ch, "0044"+strings.Repeat("a", 40)+" refs/heads/main\x00agent=x")
			repeat(ch, strings.Repeat("003c"+strings.Repeat("a", 40)+" refs/heads/main", 1000))
		}, "more than 16384 KiB of refs"},
		"a text without end": {nil, nil, func(ch ssh.Channel) { repeat(ch, "INTERNAL-4711") }, "not one of git"},
		"error output without end": {nil, nil, func(ch ssh.Channel) {
			repeat(ch.Stderr(), strings.Repeat("x", 1000))
		}, "the server said"},
		"an end at once": {nil, nil, func(ch ssh.Channel) { ch.Close() }, "ended the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := hostileSSH(t, test.change, test.before, test.answer)
			r, err := newRemote(git.Config{
				URL: "ssh://git@" + s.addr + "/cfg.git", Secret: s.secret(nil), PackBytes: 1 << 20,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = r.List(ctx)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), test.words) ||
				strings.Contains(err.Error(), "4711") {
				t.Errorf("got %v, want %q", err, test.words)
			}
		})
	}
}

// TestAServerThatChangesItsHostKey: the key is checked for each connection, so another server at the same address gets
// no request after the list of refs.
func TestAServerThatChangesItsHostKey(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	honest, other := serveSSH(t, r.root, false), serveSSH(t, r.root, false)
	to := honest.addr
	remote, err := newRemote(git.Config{
		URL: "ssh://git@" + honest.addr + "/cfg.git", Secret: honest.secret(nil),
		Connect: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, to)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	picked := pick(t, remote, v1alpha1.GitRef{})
	to = other.addr
	_, err = remote.Fetch(t.Context(), picked, "")
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, "the server's host key differs")
	to = honest.addr
	if s, err := remote.Fetch(t.Context(), picked, ""); err != nil {
		t.Errorf("the honest server again: %v", err)
	} else {
		s.Close()
	}
}
