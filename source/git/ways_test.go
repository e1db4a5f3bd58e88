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
			remote, err := git.New(c)
			if err != nil {
				t.Fatal(err)
			}
			picked := pick(t, remote, v1alpha1.GitRef{Branch: "main"})
			if _, err := remote.Tree(t.Context(), picked, "", t.TempDir()); err != nil || picked.Hash != head || seen.Load() == 0 {
				t.Errorf("picked %v after %d connections: %v", picked, seen.Load(), err)
			}
			c.Connect = func(context.Context, string, string) (net.Conn, error) {
				return nil, fault.NewStalled(v1alpha1.ReasonAuthentication, errors.New("the proxy requires other credentials"))
			}
			if remote, err = git.New(c); err != nil {
				t.Fatal(err)
			}
			_, err = remote.List(t.Context())
			wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, "the proxy requires other credentials")
		})
	}
}

// TestSeveralIdentities: during a change of the deploy key, the Secret has the old one and the new one.
func TestSeveralIdentities(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	s := serveSSH(t, r.root, false)
	_, private := newKey(t)
	other := armored(t, private, "")
	for name, test := range map[string]struct {
		override map[string]string
		words    string // "" for success
		kind     fault.Kind
	}{
		"the first is right":                {map[string]string{"identity.2": other}, "", 0},
		"the second is right":               {map[string]string{"identity": other, "identity.2": s.identity}, "", 0},
		"the fifth is right":                {map[string]string{"identity": other, "identity.2": other, "identity.3": other, "identity.4": other, "identity.5": s.identity}, "", 0},
		"the second is encrypted":           {map[string]string{"identity": other, "identity.2": encrypt(t, s.identity, "open sesame"), "password": "open sesame"}, "", 0},
		"none is right":                     {map[string]string{"identity": other, "identity.2": other}, "the server does not accept the Secret's identity", fault.Stalled},
		"the second is damaged":             {map[string]string{"identity.2": "S3CR3T"}, "reading the Secret's identity.2", fault.Stalled},
		"the second has another passphrase": {map[string]string{"identity.2": encrypt(t, other, "x"), "password": "S3CR3T"}, "reading the Secret's identity.2", fault.Stalled},
		"the second needs a passphrase":     {map[string]string{"identity.2": encrypt(t, other, "x")}, "the Secret's identity.2 is encrypted: add its passphrase as password", fault.Stalled},
		"a sixth":                           {map[string]string{"identity.6": other}, `keys that Bunsen does not read: "identity.6"`, fault.Stalled},
		"no first":                          {map[string]string{"identity": "", "identity.2": s.identity}, "ssh needs a Secret with the private key in `identity`", fault.Stalled},
	} {
		t.Run(name, func(t *testing.T) {
			remote, err := git.New(git.Config{URL: "ssh://git@" + s.addr + "/cfg.git", Secret: s.secret(test.override)})
			if err == nil {
				_, err = remote.List(t.Context())
			}
			switch {
			case test.words == "" && err != nil:
				t.Error(err)
			case test.words != "":
				wantFault(t, err, test.kind, v1alpha1.ReasonAuthentication, test.words)
				if err != nil && strings.Contains(err.Error(), "S3CR3T") {
					t.Errorf("the error gives a secret away: %v", err)
				}
			}
		})
	}
}

// TestASlashAtTheEnd: users paste addresses from browsers.
func TestASlashAtTheEnd(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	web, shell := serveHTTPS(t, r.root), serveSSH(t, r.root, false)
	for _, c := range []git.Config{
		{URL: web.URL + "/cfg.git/", Secret: web.secret(nil)},
		{URL: web.URL + "/cfg.git//", Secret: web.secret(nil)},
		{URL: "ssh://git@" + shell.addr + "/cfg.git/", Secret: shell.secret(nil)},
	} {
		remote, err := git.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if refs, err := remote.List(t.Context()); err != nil || len(refs) == 0 {
			t.Errorf("%s: %v", c.URL, err)
		}
	}
}
