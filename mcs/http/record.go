package http

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Actions of the audit log.
const (
	actionServe  = "serve"
	actionRefuse = "refuse"
)

// refusalLines is how many refusals get a line of their own, of all sources together: who has many addresses is within the
// limits of each.
var refusalLines = Rate{PerSecond: 50, Burst: 1000}

// record keeps what became of each request: a line of the log, a line of the audit log, a count. Of floods it keeps one per
// second, which says for how many it stands, so that nobody fills a disk by asking.
type record struct {
	log    *slog.Logger
	audit  io.Writer
	counts *Counts

	refusals *rate.Limiter
	floods   throttle
	mu       sync.Mutex // one line at a time into audit
}

func newRecord(log *slog.Logger, audit io.Writer, counts *Counts) *record {
	return &record{log: log, audit: audit, counts: counts, refusals: refusalLines.limiter()}
}

// audited is one line of the audit log.
type audited struct {
	Time   time.Time `json:"time"`
	Action string    `json:"action"`
	Status int       `json:"status"`
	// Reason is why it was refused, or what went wrong, or what was shown and passed over.
	Reason string `json:"reason,omitempty"`
	// Repeated is for how many refusals alike this one stands; absent: for itself.
	Repeated int    `json:"repeated,omitempty"`
	Method   string `json:"method"`
	Address  string `json:"address"`
	auditedWho
	auditedWhat
}

// auditedWho says who asked. Never a token: its id.
type auditedWho struct {
	Access      string `json:"access,omitempty"` // token, certificate or open; what admitted
	Token       string `json:"token,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	Node        string `json:"node,omitempty"`
}

// auditedWhat says what was sent.
type auditedWhat struct {
	Pool     string `json:"pool,omitempty"`
	Config   string `json:"config,omitempty"`
	Commit   string `json:"commit,omitempty"`
	Version  string `json:"version,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Bytes    int64  `json:"bytes"`
	// Complete says that the connection took every byte of the answer.
	Complete bool `json:"complete"`
	// Withheld is how many secrets were left out.
	Withheld int `json:"withheld,omitempty"`
}

// keep records an answer.
func (k *record) keep(r *http.Request, a *answer, now time.Time) {
	k.counts.add(a)
	repeated := 0
	if flood(a.err) || !a.served() && !k.refusals.AllowN(now, 1) {
		if repeated = k.floods.pass(now); repeated == 0 {
			return
		}
	}
	k.line(r, a, repeated)
	if k.audit != nil {
		k.write(auditOf(r, a, now, repeated))
	}
}

// line writes the one line of the log.
func (k *record) line(r *http.Request, a *answer, repeated int) {
	level, attrs := slog.LevelInfo, make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("pool", loggable(a.pool)))
	if a.offer != nil {
		attrs = append(attrs, slog.String("config", a.offer.Config()), slog.String("commit", a.offer.Commit()))
	}
	attrs = append(attrs, slog.String("version", string(a.form.Version)), slog.String("remote", r.RemoteAddr), slog.Int("status", a.status))
	for _, optional := range []slog.Attr{slog.String("token", a.who.token), slog.String("certificate", a.who.certificate), slog.String("node", a.who.node)} {
		if optional.Value.String() != "" {
			attrs = append(attrs, optional)
		}
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
	k.log.LogAttrs(r.Context(), level, "answered "+r.Method, attrs...)
}

// write adds a line to the audit log. Where that cannot be, the log says so: machines are served all the same.
func (k *record) write(line audited) {
	text, err := json.Marshal(line)
	if err == nil {
		k.mu.Lock()
		_, err = k.audit.Write(append(text, '\n'))
		k.mu.Unlock()
	}
	if err != nil {
		k.log.Error("writing the audit log", "error", err)
	}
}

func auditOf(r *http.Request, a *answer, now time.Time, repeated int) audited {
	line := audited{
		Time: now.UTC(), Action: actionRefuse, Status: a.status, Reason: a.reason(), Method: r.Method, Address: a.from.String(),
		auditedWho: auditedWho{Token: a.who.token, Certificate: a.who.certificate, Node: a.who.node},
		auditedWhat: auditedWhat{
			Pool: loggable(a.pool), Version: string(a.form.Version), Bytes: a.sent,
			Complete: a.served() && a.err == nil, Withheld: len(a.body.Withheld),
		},
	}
	if repeated > 1 {
		line.Repeated = repeated
	}
	if a.offer != nil {
		line.Config, line.Commit = a.offer.Config(), a.offer.Commit()
	}
	if a.form.Zipped {
		line.Encoding = "gzip"
	}
	if a.served() {
		line.Action, line.Access = actionServe, a.who.how()
	}
	return line
}

// how names what admitted.
func (g grant) how() string {
	switch {
	case g.open:
		return "open"
	case g.certificate != "":
		return "certificate"
	}
	return "token"
}

// served tells whether the answer is the config, or that it is as it was.
func (a *answer) served() bool {
	return a.status == http.StatusOK || a.status == http.StatusNotModified
}

// reason is what went wrong, or what was shown in vain; empty where all is well.
func (a *answer) reason() string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.who.passed != nil:
		return "passed over: " + a.who.passed.Error()
	}
	return ""
}

// loggable is a pool's name as the request spells it. What can be none is not shown: whoever puts a token into the path
// shall not find it in the log, and no secret is of small letters alone.
func loggable(pool string) string {
	const longest = 253
	if len(pool) > longest {
		return "(too long)"
	}
	for _, c := range []byte(pool) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return "(no name)"
		}
	}
	return pool
}
