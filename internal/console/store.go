package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// secretBytes is the length of tokens and cookies: 256 bits.
const secretBytes = 32

// newSecret returns a random value as a browser sends it.
func newSecret(random io.Reader) (string, error) {
	raw := make([]byte, secretBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("reading random bytes: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

// OneTime is a token that opens one session. A second use ends that session: one of the two users is not the owner of
// the token.
type OneTime struct {
	sum [sha256.Size]byte

	mu   sync.Mutex
	used bool
}

// NewOneTime creates a token. Only the caller gets its text.
func NewOneTime(random io.Reader) (*OneTime, string, error) {
	text, err := newSecret(random)
	if err != nil {
		return nil, "", err
	}
	return &OneTime{sum: sha256.Sum256([]byte(text))}, text, nil
}

// Use reports whether the text is the token, and whether this was its first use.
func (o *OneTime) Use(text string) (valid, first bool) {
	sum := sha256.Sum256([]byte(text))
	if subtle.ConstantTimeCompare(sum[:], o.sum[:]) != 1 {
		return false, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	first, o.used = !o.used, true
	return true, first
}

// SessionStore has the open sessions in memory, each with a value. Its keys are hashes, so the time of a lookup says
// nothing about a cookie.
type SessionStore[T any] struct {
	Cookie string
	// TLS: browsers use https.
	TLS bool
	// Most is the highest number of sessions. One more closes the session that ends first.
	Most int
	// Closed is called with the value of a session that ended, unless it is nil.
	Closed func(T)

	mu   sync.Mutex
	open map[[sha256.Size]byte]entry[T]
}

type entry[T any] struct {
	ends  time.Time
	owned T
	// formToken is in the forms of the session's pages. Another site can neither read nor guess it.
	formToken string
}

// CookieName returns the name of the console's cookie. Cookies belong to all ports of a host, so it contains the port.
// With TLS, the prefix makes browsers refuse a cookie that another host of the domain set.
func CookieName(port string, tls bool) string {
	name := "bunsen-console-" + port
	if tls {
		return "__Host-" + name
	}
	return name
}

// Open opens a session and returns its cookie.
func (s *SessionStore[T]) Open(random io.Reader, owned T, now, ends time.Time) (*http.Cookie, error) {
	value, err := newSecret(random)
	if err != nil {
		return nil, err
	}
	formToken, err := newSecret(random)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeEnded(now)
	for len(s.open) >= s.Most {
		s.close(s.nextToEnd())
	}
	if s.open == nil {
		s.open = map[[sha256.Size]byte]entry[T]{}
	}
	s.open[sha256.Sum256([]byte(value))] = entry[T]{ends, owned, formToken}
	return &http.Cookie{
		Name: s.Cookie, Value: value, Path: "/", HttpOnly: true, Secure: s.TLS,
		SameSite: http.SameSiteStrictMode,
	}, nil
}

// Find returns the value of the session of a request.
func (s *SessionStore[T]) Find(r *http.Request, now time.Time) (owned T, ok bool) {
	e, ok := s.find(r, now)
	return e.owned, ok
}

// FormToken returns what the forms of the session of a request contain; empty without a session.
func (s *SessionStore[T]) FormToken(r *http.Request, now time.Time) string {
	e, _ := s.find(r, now)
	return e.formToken
}

func (s *SessionStore[T]) find(r *http.Request, now time.Time) (e entry[T], ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeEnded(now)
	for _, c := range r.CookiesNamed(s.Cookie) {
		if e, ok := s.open[sha256.Sum256([]byte(c.Value))]; ok {
			return e, true
		}
	}
	return e, false
}

// Close closes the session of a request, and returns a cookie that deletes the browser's.
func (s *SessionStore[T]) Close(r *http.Request) *http.Cookie {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.CookiesNamed(s.Cookie) {
		s.close(sha256.Sum256([]byte(c.Value)))
	}
	return &http.Cookie{
		Name: s.Cookie, Path: "/", HttpOnly: true, Secure: s.TLS, SameSite: http.SameSiteStrictMode,
		MaxAge: -1,
	}
}

// CloseIf closes the sessions for which the function is true.
func (s *SessionStore[T]) CloseIf(ends func(T) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.open {
		if ends(e.owned) {
			s.close(key)
		}
	}
}

func (s *SessionStore[T]) close(key [sha256.Size]byte) {
	e, ok := s.open[key]
	if !ok {
		return
	}
	delete(s.open, key)
	if s.Closed != nil {
		s.Closed(e.owned)
	}
}

func (s *SessionStore[T]) closeEnded(now time.Time) {
	for key, e := range s.open {
		if !now.Before(e.ends) {
			s.close(key)
		}
	}
}

func (s *SessionStore[T]) nextToEnd() (first [sha256.Size]byte) {
	var ends time.Time
	for key, e := range s.open {
		if ends.IsZero() || e.ends.Before(ends) {
			first, ends = key, e.ends
		}
	}
	return first
}
