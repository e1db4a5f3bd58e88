package transport

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// maxServers is how many repositories Servers remembers.
	maxServers = 1000
	// maxServerAge is how long Servers remembers a repository. The limit exists because a newer version of git on the
	// server may support more.
	maxServerAge = time.Hour
	// maxMessage is the largest first message, in bytes, that Servers remembers. The first messages of real git servers
	// have less than 1 KiB.
	maxMessage = 16 << 10
)

// Servers remembers which repositories speak version 2 of the protocol over http, and what they can do, so that a poll
// is one request. Servers forgets a repository after an error, after an hour, and if it redirects. Servers does not
// remember a long message. Servers stores digests of keys, and no secret. Servers is safe for concurrent use.
type Servers struct {
	// Now is the clock.
	Now func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]knownServer
}

type knownServer struct {
	advertised
	at time.Time
}

// get returns the remembered first message for a repository, or nil.
func (s *Servers) get(key string) *advertised {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.known[sha256.Sum256([]byte(key))]
	if !ok || s.Now().Sub(found.at) >= maxServerAge {
		return nil
	}
	return &found.advertised
}

// put stores the first message for a repository; nil deletes it.
func (s *Servers) put(key string, server *advertised) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(key))
	delete(s.known, sum)
	if server == nil || len(server.message) > maxMessage {
		return
	}
	if s.known == nil {
		s.known = map[[sha256.Size]byte]knownServer{}
	}
	for other := range s.known { // If there are too many entries, put deletes any of them.
		if len(s.known) < maxServers {
			break
		}
		delete(s.known, other)
	}
	s.known[sum] = knownServer{*server, s.Now()}
}
