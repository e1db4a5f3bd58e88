package http

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bunsen-os/bunsen/mcs"
)

const (
	actionServe  = "serve"
	actionRefuse = "refuse"
)

// byNode marks an entry about a node that read its config.
const byNode = "node"

// errorLines are for error responses of all sources together, because a client with many addresses stays within the
// limits of each.
var errorLines = Rate{PerSecond: 50, Burst: 1000}

// requestLog records each response: a line of the log, a line of the audit log, metrics. Of errors that clients can
// cause at will, it logs one per second, with their number, so that they cannot fill the disk.
type requestLog struct {
	log     *slog.Logger
	audit   io.Writer
	metrics *Metrics

	errors      *rate.Limiter
	rateLimited Throttle
	mu          sync.Mutex // mu allows one write at a time to audit.
}

type auditEntry struct {
	Time   time.Time `json:"time"`
	Action string    `json:"action"`
	Status int       `json:"status"`
	// why the request was refused or failed, or why an invalid token or certificate was ignored
	Reason string `json:"reason,omitempty"`
	// how many similar errors the entry stands for; absent for one
	Repeated int `json:"repeated,omitempty"`
	// the share of bootstrap tokens that is used up: holder, address or server; absent for other errors
	Share   mcs.Share `json:"share,omitempty"`
	Method  string    `json:"method"`
	Address string    `json:"address"`
	auditClient
	auditContent
}

// auditClient has the id of a token, never the whole token.
type auditClient struct {
	// what authorized the request: token, certificate, grant or open
	Access      string `json:"access,omitempty"`
	Token       string `json:"token,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	Node        string `json:"node,omitempty"`
}

type auditContent struct {
	Pool     string `json:"pool,omitempty"`
	Config   string `json:"config,omitempty"`
	Commit   string `json:"commit,omitempty"`
	Version  string `json:"version,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Bytes    int64  `json:"bytes"`
	// The connection took every byte of the response.
	Complete bool `json:"complete"`
	// "node" for a node that read its config, absent for a new machine
	By string `json:"by,omitempty"`
	// the architecture of the requested daemon; absent for a config
	Daemon string `json:"daemon,omitempty"`
	// the hash of the requested file of the content store, or its address in a registry; absent for a config
	Content string `json:"content,omitempty"`
	// secrets that the server left out
	Withheld int `json:"withheld,omitempty"`
}

func (l *requestLog) add(r *http.Request, a *response, now time.Time) {
	l.metrics.add(a)
	repeated := 0
	if isRateLimited(a.err) || !a.isServed() && !l.errors.AllowN(now, 1) {
		if repeated = l.rateLimited.Allow(now); repeated == 0 {
			return
		}
	}
	l.line(r, a, repeated)
	if l.audit != nil {
		l.write(auditEntryOf(r, a, now, repeated))
	}
}

func (l *requestLog) line(r *http.Request, a *response, repeated int) {
	level, attrs := slog.LevelInfo, make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("pool", mcs.SafeName(a.pool)))
	if a.config != nil {
		attrs = append(attrs, slog.String("config", a.config.Name()), slog.String("commit", a.config.Commit()))
	}
	if a.nodeConfig != "" {
		attrs = append(attrs, slog.String("by", byNode), slog.String("config", mcs.SafeName(a.nodeConfig)))
	} else {
		attrs = append(attrs, slog.String("version", string(a.format.Version)))
	}
	attrs = append(attrs, slog.String("remote", r.RemoteAddr), slog.Int("status", a.status))
	for _, optional := range []slog.Attr{
		slog.String("token", a.client.token),
		slog.String("certificate", a.client.certificate), slog.String("node", a.client.node),
	} {
		if optional.Value.String() != "" {
			attrs = append(attrs, optional)
		}
	}
	if a.content != "" {
		attrs = append(attrs, slog.String("content", a.content))
	}
	if a.daemon != "" {
		attrs = append(attrs, slog.String("daemon", mcs.SafeName(a.daemon)))
	}
	if n := len(a.body.Withheld); n > 0 {
		attrs = append(attrs, slog.Int("withheld", n))
	}
	if repeated > 1 {
		attrs = append(attrs, slog.Int("repeated", repeated))
	}
	if reason := a.reason(); reason != "" {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("error", reason))
	}
	l.log.LogAttrs(r.Context(), level, "answered "+r.Method, attrs...)
}

// write writes to the audit log. After a failure, which it logs, the server continues to serve machines.
func (l *requestLog) write(line auditEntry) {
	text, err := json.Marshal(line)
	if err == nil {
		l.mu.Lock()
		_, err = l.audit.Write(append(text, '\n'))
		l.mu.Unlock()
	}
	if err != nil {
		l.log.Error("writing the audit log failed", "error", err)
	}
}

func auditEntryOf(r *http.Request, a *response, now time.Time, repeated int) auditEntry {
	line := auditEntry{
		Time: now.UTC(), Action: actionRefuse, Status: a.status, Reason: a.reason(), Method: r.Method,
		Address:     a.from.String(),
		auditClient: auditClient{Token: a.client.token, Certificate: a.client.certificate, Node: a.client.node},
		auditContent: auditContent{
			Pool: mcs.SafeName(a.pool), Version: string(a.format.Version), Bytes: a.sent,
			Complete: a.isServed() && a.err == nil, Withheld: len(a.body.Withheld),
		},
	}
	if share := new(mcs.ShareError); errors.As(a.err, &share) {
		line.Share = share.Share
	}
	if repeated > 1 {
		line.Repeated = repeated
	}
	if a.config != nil {
		line.Config, line.Commit = a.config.Name(), a.config.Commit()
	}
	if a.nodeConfig != "" {
		line.By, line.Config = byNode, mcs.SafeName(a.nodeConfig)
	}
	if line.Content = a.content; a.isContent && a.client.node != "" {
		line.By = byNode
	}
	if a.daemon != "" {
		line.Daemon = mcs.SafeName(a.daemon)
	}
	if a.format.Gzip {
		line.Encoding = "gzip"
	}
	if a.isServed() {
		line.Action, line.Access = actionServe, a.client.access()
	}
	return line
}

func (c client) access() string {
	switch {
	case c.open:
		return "open"
	case c.grant:
		return "grant"
	case c.certificate != "":
		return "certificate"
	}
	return "token"
}

// isServed reports whether the response is the config, or says that it has not changed.
func (a *response) isServed() bool {
	return a.status == http.StatusOK || a.status == http.StatusNotModified || a.status == http.StatusPartialContent
}

// reason is why the request failed, or why a token or certificate was ignored; otherwise "".
func (a *response) reason() string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.client.ignored != nil:
		return "ignored: " + a.client.ignored.Error()
	}
	return ""
}

// Throttle allows one event per second and counts the other events.
type Throttle struct {
	mu   sync.Mutex
	next time.Time
	kept int
}

// Allow returns the number of events since the last allowed one, including this one, or 0 if it is not allowed.
func (t *Throttle) Allow(now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept++
	if now.Before(t.next) {
		return 0
	}
	n := t.kept
	t.kept, t.next = 0, now.Add(time.Second)
	return n
}
