package metrics

import (
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
