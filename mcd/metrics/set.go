package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// longestLabel is the maximum length of a reason in a label. The annotation of the Node has the whole reason.
const longestLabel = 256

// Set has the values of all metrics. Set is safe for use by several goroutines. New returns a Set; the zero value is
// not usable.
type Set struct {
	now func() time.Time

	mu sync.Mutex
	// state, update and boot have the last reported labels; nil before the first report.
	state, update, boot *told
	drift               float64
	pivotErrors         float64
	rebootErrors        float64
}

// told has the labels and the value of a metric.
type told struct {
	labels []string
	value  float64
}

// New returns a Set without values. The function now returns the current time.
func New(now func() time.Time) *Set { return &Set{now: now} }

// State records the Node's state, such as Done or Degraded, and its reason.
func (s *Set) State(state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = &told{[]string{state, short(reason)}, s.seconds(s.now())}
}

// Update records the result of the last update to a config; nil is success.
func (s *Set) Update(config string, err error) {
	why := ""
	if err != nil {
		why = short(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update = &told{[]string{config, why}, s.seconds(s.now())}
}

// Drift records when drift began; the zero time means that there is no drift.
func (s *Set) Drift(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drift = s.seconds(at)
}

// Reboot counts a request to reboot that failed; nil counts nothing.
func (s *Set) Reboot(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rebootErrors++
}

// Boot records the running OS: the ID and VERSION_ID of os-release.
func (s *Set) Boot(os, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boot = &told{[]string{os, version}, 1}
}

// Pivot counts a failure to stage a part of the OS; nil counts nothing.
func (s *Set) Pivot(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pivotErrors++
}

// seconds returns the seconds since the epoch; 0 for the zero time.
func (s *Set) seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.Unix())
}

// short shortens a text to one line for a label.
func short(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) > longestLabel {
		text = strings.ToValidUTF8(text[:longestLabel-len("…")], "") + "…"
	}
	return text
}

// ErrNotLoopback reports that the requested address is not a loopback address.
var ErrNotLoopback = errors.New("metrics are served on loopback only: give an address such as 127.0.0.1:8797, and " +
	"let a proxy with authentication on this machine speak to others")

// Listen listens on an address, which must be a loopback address.
func Listen(address string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of metrics %q: %w", address, err)
	}
	if !at.IP.IsLoopback() {
		return nil, fmt.Errorf("serving metrics on %q: %w", address, ErrNotLoopback)
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("serving metrics: %w", err)
	}
	return l, nil
}

// Serve answers requests on a listener until the context ends. When the context ends, Serve closes the listener. In
// addition to the metrics, Serve answers GET /healthz with 200, and GET /readyz with 200 or, if the function ready
// returns an error, with 503 and the error.
func (s *Set) Serve(ctx context.Context, l net.Listener, ready func() error) error {
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.Handle("GET /healthz", probe(func() error { return nil }))
	mux.Handle("GET /readyz", probe(ready))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() {
		server.Close()
	}) //nolint:errcheck,gosec // nothing is under way that counts
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

// probe returns a handler that answers with 503 and the error of a check, if the check returns an error.
func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // the client has disconnected
	}
}

// ServeHTTP answers GET /metrics, and no other request.
func (s *Set) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/metrics":
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
	default:
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, s.String()) // the client has disconnected
	}
}

// metric describes one metric.
type metric struct {
	name, kind, help string
	labels           []string
	value            func(*Set) *told
}

// table has all metrics in the order of the output.
var table = []metric{
	{"mcd_config_drift", "gauge", "Since when the disk is not as the config says, in seconds since 1970; 0 when it is.", nil, func(s *Set) *told { return &told{value: s.drift} }},
	{"mcd_host_os_and_version", "gauge", "1, with what runs on this machine.", []string{"os", "version"}, func(s *Set) *told { return s.boot }},
	{"mcd_pivot_errors_total", "counter", "Parts of the OS that could not be staged.", nil, func(s *Set) *told { return &told{value: s.pivotErrors} }},
	{"mcd_reboots_failed_total", "counter", "Reboot requests that the machine rejected.", nil, func(s *Set) *told { return &told{value: s.rebootErrors} }},
	{"mcd_state", "gauge", "Time of the last report of the Node's state, in seconds since 1970.", []string{"state", "reason"}, func(s *Set) *told { return s.state }},
	{"mcd_update_state", "gauge", "When the newest update ended, in seconds since 1970; err is empty when it ended well.", []string{"config", "err"}, func(s *Set) *told { return s.update }},
}

// contentType is the content type of the text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// String returns the metrics in the Prometheus text format, without metrics that have no value yet.
func (s *Set) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, m := range table {
		is := m.value(s)
		if is == nil {
			continue
		}
		b.WriteString("# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " " + m.kind + "\n" + m.name)
		for i, label := range m.labels {
			sign := ","
			if i == 0 {
				sign = "{"
			}
			b.WriteString(sign + label + `="` + escape.Replace(is.labels[i]) + `"`)
		}
		if len(m.labels) > 0 {
			b.WriteString("}")
		}
		b.WriteString(" " + strconv.FormatFloat(is.value, 'f', -1, 64) + "\n")
	}
	return b.String()
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
