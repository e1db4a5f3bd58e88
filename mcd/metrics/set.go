package metrics

import (
	"strings"
	"sync"
	"time"
)

// longestLabel is how much of a reason a label holds: the Node's annotation has all of it.
const longestLabel = 256

// Set is all that is counted. Its methods may be called by several goroutines. The zero value is not usable; see New.
type Set struct {
	now func() time.Time

	mu sync.Mutex
	// state, update and boot hold the labels told last; nil where nothing was told yet.
	state, update, boot *told
	drift               float64
	pivotErrors         float64
	rebootErrors        float64
}

// told are the values of a metric's labels and the metric's own value.
type told struct {
	labels []string
	value  float64
}

// New makes a Set without any values; now tells the time.
func New(now func() time.Time) *Set { return &Set{now: now} }

// State tells the Node's state, such as Done or Degraded, and its reason.
func (s *Set) State(state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = &told{[]string{state, short(reason)}, s.seconds(s.now())}
}

// Update tells how the newest update to a config ended; nil is well.
func (s *Set) Update(config string, err error) {
	why := ""
	if err != nil {
		why = short(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update = &told{[]string{config, why}, s.seconds(s.now())}
}

// Drift tells since when the disk is not as the config says; the zero time when it is.
func (s *Set) Drift(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drift = s.seconds(at)
}

// Reboot tells the answer to a request to reboot; nil, that the machine accepted, counts nothing.
func (s *Set) Reboot(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rebootErrors++
}

// Boot tells what runs: the ID and VERSION_ID of os-release.
func (s *Set) Boot(os, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boot = &told{[]string{os, version}, 1}
}

// Pivot tells the answer to staging a part of the OS; nil counts nothing.
func (s *Set) Pivot(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pivotErrors++
}

// seconds since the epoch; 0 for no time.
func (s *Set) seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.Unix())
}

// short is one line that fits into a label.
func short(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) > longestLabel {
		text = strings.ToValidUTF8(text[:longestLabel-len("…")], "") + "…"
	}
	return text
}
