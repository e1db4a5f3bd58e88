package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"

	"github.com/bunsen-os/bunsen/mcs/join"
)

func TestTheAuditLogSaysWhatBecameOfEachRequest(t *testing.T) {
	o, known, _ := closed(t)
	var written bytes.Buffer
	o.Audit = &written
	bound := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "secret", Node: "a"})
	loose := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "secret"})
	h, _ := Routes(o)
	o.Access.Open = true
	opened, _ := Routes(o)
	whole := float64(len(text(t, ask(opened, "GET", "/config/worker"))))
	always := map[string]any{"time": "2026-11-21T12:00:00Z", "method": "GET", "address": "192.0.2.1"}
	secret := map[string]any{
		"pool": "secret", "config": "rendered-secret-1", "commit": "main@sha1:01",
		"version": "3.5.0",
	}
	for _, c := range []struct {
		because string
		send    func()
		want    []map[string]any
	}{
		{"a token of a node", func() {
			ask(h, "GET", "/config/secret", "Authorization", bearer(bound), "Accept-Encoding", "gzip")
		}, []map[string]any{always, secret, {
			"action": "serve", "status": 200.0, "access": "token", "token": bound.ID, "node": "a", "encoding": "gzip",
			"complete": true, "bytes": -1.0,
		}}},
		{
			"a token of no node", func() { ask(h, "GET", "/config/secret", "Authorization", bearer(loose)) },
			[]map[string]any{always, secret, {
				"action": "serve", "status": 200.0, "access": "token", "token": loose.ID, "withheld": 1.0,
				"complete": true,
				"bytes":    -1.0,
			}},
		},
		{"nobody in particular", func() { ask(opened, "GET", "/config/worker") }, []map[string]any{always, {
			"action": "serve", "status": 200.0, "access": "open", "pool": "worker", "config": "rendered-worker-1",
			"commit": "main@sha1:01", "version": "3.5.0", "complete": true, "bytes": whole,
		}}},
		{"open access with a token that is no good", func() {
			ask(opened, "HEAD", "/config/worker", "Authorization", bearer(loose))
		}, []map[string]any{always, {
			"action": "serve", "status": 200.0, "access": "open", "method": "HEAD", "token": loose.ID,
			"reason": "ignored: provisioning token " + loose.ID + ": for another pool",
			"pool":   "worker", "config": "rendered-worker-1", "commit": "main@sha1:01", "version": "3.5.0",
			"complete": true, "bytes": 0.0,
		}}},
		{"another secret", func() {
			ask(h, "GET", "/config/secret", "Authorization", bearer(join.Token{ID: bound.ID, Secret: loose.Secret}))
		}, []map[string]any{always, {
			"action": "refuse", "status": 401.0, "token": bound.ID, "reason": "provisioning token " + bound.ID +
				": wrong secret", "pool": "secret", "complete": false, "bytes": 0.0,
		}}},
		{
			"a version that is not served", func() { ask(opened, "GET", "/config/worker", "Accept", accept+"1.0.0") },
			[]map[string]any{always, {
				"action": "refuse", "status": 400.0, "reason": (&mcs.UnsupportedVersionError{Asked: "1.0.0"}).Error(),
				"pool": "worker", "config": "rendered-worker-1", "commit": "main@sha1:01", "complete": false,
				"bytes": 0.0,
			}},
		},
		{"a token in the path", func() { ask(h, "GET", "/config/"+bound.String()) }, []map[string]any{always, {
			"action": "refuse", "status": 401.0, "reason": "provisioning token: there is none", "pool": "(no name)",
			"complete": false, "bytes": 0.0,
		}}},
		{"health", func() { ask(h, "GET", "/healthz") }, nil},
	} {
		written.Reset()
		c.send()
		var want []map[string]any
		if c.want != nil {
			want = []map[string]any{{}}
			for _, part := range c.want {
				for key, value := range part {
					want[0][key] = value
				}
			}
		}
		got := lines(t, &written)
		if len(got) > 0 && c.want != nil && want[0]["bytes"] == -1.0 && got[0]["bytes"].(float64) > 0 {
			want[0]["bytes"] = got[0]["bytes"]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.because, diff)
		}
	}
}

// broken is a connection that takes so many bytes.
type broken struct {
	*httptest.ResponseRecorder
	left int
}

var errBroken = errors.New("broken pipe")

func (b *broken) Write(p []byte) (int, error) {
	if len(p) <= b.left {
		b.left -= len(p)
		return len(p), nil
	}
	n := b.left
	b.left = 0
	return n, errBroken
}

func (b *broken) WriteString(s string) (int, error) { return b.Write([]byte(s)) }

func (b *broken) FlushError() error {
	if b.left == 0 {
		return errBroken
	}
	return nil
}

func TestABrokenTransferIsRecordedAsOne(t *testing.T) {
	o := open(joining(t, filled(t)))
	o.BootstrapTokens = &minter{}
	var audit, log bytes.Buffer
	o.Audit, o.Log = &audit, slog.New(slog.NewJSONHandler(&log, nil))
	h, counts := Routes(o)
	whole := len(text(t, ask(h, "GET", "/config/worker")))
	for _, taken := range []int{0, 1, whole / 2, whole - 1, whole} {
		audit.Reset()
		log.Reset()
		h.ServeHTTP(&broken{httptest.NewRecorder(), taken}, httptest.NewRequest("GET", "/config/worker", nil))
		a, l := lines(t, &audit)[0], lines(t, &log)[0]
		if a["complete"] != false || a["bytes"] != float64(taken) || a["action"] != "serve" ||
			l["error"] != "sending the config: broken pipe" {
			t.Errorf("after %d bytes of %d the audit has %v and the log %v", taken, whole, a, l)
		}
	}
	if counts.Served() != 1 || counts.Refused() != 0 {
		t.Errorf("counted %d served and %d refused", counts.Served(), counts.Refused())
	}
}

func TestAFloodIsOneLinePerSecond(t *testing.T) {
	now := noon
	var audit, log bytes.Buffer
	o := Options{
		Source: filled(t), Audit: &audit, Log: slog.New(slog.NewJSONHandler(&log, nil)),
		Now: func() time.Time { return now },
	}
	o.Limits = Limits{Failures: Rate{PerSecond: 0.001, Burst: 2}}
	h, counts := Routes(o)
	ask1000 := func() {
		for range 1000 {
			ask(h, "GET", "/config/worker")
		}
	}
	ask1000()
	now = now.Add(time.Second)
	ask1000()
	for name, got := range map[string][]map[string]any{"audit": lines(t, &audit), "log": lines(t, &log)} {
		var statuses, repeated []any
		for _, line := range got {
			statuses, repeated = append(statuses, line["status"]), append(repeated, line["repeated"])
		}
		if diff := cmp.Diff([]any{401.0, 401.0, 503.0, 503.0}, statuses); diff != "" {
			t.Errorf("%s: statuses -want +got:\n%s", name, diff)
		}
		if diff := cmp.Diff([]any{nil, nil, nil, 998.0}, repeated); diff != "" {
			t.Errorf("%s: repeated -want +got:\n%s", name, diff)
		}
	}
	if counts.Refused() != 2000 {
		t.Errorf("counted %d refused", counts.Refused())
	}
}

// Whoever has many addresses is within the limits of each.
func TestRefusalsOfManySourcesAreNotALineEachWithoutEnd(t *testing.T) {
	var audit, log bytes.Buffer
	o := Options{
		Source: filled(t), Limits: DefaultLimits(), Audit: &audit,
		Log: slog.New(slog.NewJSONHandler(&log, nil)), Now: atNoon,
	}
	h, counts := Routes(o)
	const asked = 5000
	for i := range asked {
		r := httptest.NewRequest("GET", "/config/worker", nil)
		r.RemoteAddr = fmt.Sprintf("[2001:db8:0:%x::1]:1", i)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	for name, got := range map[string]int{"audit": len(lines(t, &audit)), "log": len(lines(t, &log))} {
		if got < 500 || got > 1100 {
			t.Errorf("%s: %d lines of %d refusals", name, got, asked)
		}
	}
	if counts.Refused() != asked {
		t.Errorf("counted %d refused", counts.Refused())
	}
}

func TestAnAuditLogThatCannotBeWrittenIsInTheLog(t *testing.T) {
	var log bytes.Buffer
	o := open(filled(t))
	o.Audit, o.Log = full{}, slog.New(slog.NewJSONHandler(&log, nil))
	h, _ := Routes(o)
	if r := ask(h, "GET", "/config/worker"); r.StatusCode != 200 {
		t.Errorf("answered %d", r.StatusCode)
	}
	if got := lines(t, &log); len(got) != 2 || got[1]["error"] != "no space left on device" {
		t.Errorf("the log has %v", got)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestALineOfTheAuditLogIsOneWrite(t *testing.T) {
	var written bytes.Buffer
	o := open(filled(t))
	o.Audit = whole{t, &written}
	h, _ := Routes(o)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan struct{})
	for range 8 {
		go func() {
			for range 20 {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/config/worker", nil))
			}
			done <- struct{}{}
		}()
	}
	for range 8 {
		<-done
	}
	if got := lines(t, &written); len(got) != 160 {
		t.Errorf("%d lines", len(got))
	}
}

// whole fails on what is not one line.
type whole struct {
	t  *testing.T
	to io.Writer
}

func (w whole) Write(p []byte) (int, error) {
	if !json.Valid(p) || strings.Count(string(p), "\n") != 1 || p[len(p)-1] != '\n' {
		w.t.Errorf("a write of %q", p)
	}
	return w.to.Write(p)
}
