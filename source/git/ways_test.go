package git_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

// TestEachTransportUsesTheGivenConnections: a proxy sees every connection, and its error reaches the status.
func TestEachTransportUsesTheGivenConnections(t *testing.T) {
	r := newRepo(t)
	head := r.commit("one", map[string]string{"a": "a"})
	web, shell := serveHTTPS(t, r.root), serveSSH(t, r.root, false)
	for name, c := range map[string]git.Config{
		"https": {URL: web.URL + "/cfg.git", Secret: web.secret(nil)},
		"ssh":   {URL: "ssh://git@" + shell.addr + "/cfg.git", Secret: shell.secret(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int64
			c.Connect = func(ctx context.Context, network, addr string) (net.Conn, error) {
				seen.Add(1)
				if !strings.HasPrefix(addr, "127.0.0.1:") {
					t.Errorf("a connection to %s", addr)
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			remote, err := newRemote(c)
			if err != nil {
				t.Fatal(err)
			}
			picked := pick(t, remote, v1alpha1.GitRef{Branch: "main"})
			if _, err := remote.Tree(t.Context(), picked, "", source.Destination{Dir: t.TempDir()}); err != nil ||
				picked.Hash != head || seen.Load() == 0 {
				t.Errorf("picked %v after %d connections: %v", picked, seen.Load(), err)
			}
			c.Connect = func(context.Context, string, string) (net.Conn, error) {
				return nil, fault.NewStalled(v1alpha1.ReasonAuthentication,
					errors.New("the proxy requires other credentials"))
			}
			if remote, err = newRemote(c); err != nil {
				t.Fatal(err)
			}
			_, err = remote.List(t.Context())
			wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, "the proxy requires other credentials")
		})
	}
}
