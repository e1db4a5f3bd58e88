package http

import (
	"net/netip"
	"sync"
)

// Streams limits how many long answers run at a time. A source may have as many as are left for all other sources, so
// that slow readers of a few sources never use all of them. Its methods may be called concurrently.
type Streams struct {
	// Total is the largest number of answers.
	Total int

	mu      sync.Mutex
	running int
	sources map[netip.Prefix]int
}

// Begin counts an answer to a client, and reports whether it may run. The caller calls end after an answer that ran.
func (s *Streams) Begin(from netip.Addr) (end func(), ok bool) {
	source := SourceAddress(from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources[source] >= s.Total-s.running {
		return nil, false
	}
	if s.sources == nil {
		s.sources = map[netip.Prefix]int{}
	}
	s.sources[source]++
	s.running++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
		if s.sources[source]--; s.sources[source] == 0 {
			delete(s.sources, source)
		}
	}, true
}
