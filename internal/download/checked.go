package download

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// checked is the body of a file that is at several places. One that breaks off or has another digest is remembered, so
// that the next attempt tries the other places first. A part of a file has no digest.
type checked struct {
	io.ReadCloser
	from     string
	digest   string
	sum      hash.Hash
	failures *PlaceFailures
}

// Read implements io.Reader.
func (c *checked) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	if c.sum != nil {
		c.sum.Write(into[:n]) //nolint:errcheck,gosec // it never fails
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		if c.sum == nil || strings.HasSuffix(c.digest, fmt.Sprintf(":%x", c.sum.Sum(nil))) {
			return n, err
		}
		err = errors.New("it sends other bytes than the manifest names")
	}
	if err != nil {
		c.failures.Add(c.from)
		err = fmt.Errorf("%s: %w", c.from, err)
	}
	return n, err
}

// PlacesError says why an artifact could not be read from any of its places.
type PlacesError struct {
	// Errs has one for each place.
	Errs []error
}

// Error has the answer of each place.
func (e *PlacesError) Error() string {
	texts := make([]string, 0, len(e.Errs))
	for _, err := range e.Errs {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors.
func (e *PlacesError) Unwrap() []error { return e.Errs }

// PlaceFailures remembers places whose bytes broke off or were wrong, so that the next attempt tries the others first.
// Nil remembers none. It may be used concurrently.
type PlaceFailures struct {
	Now func() time.Time

	mu sync.Mutex
	at map[string]time.Time
}

const (
	// how long a failure counts
	remembered  = 10 * time.Minute
	maxFailures = 1024
)

// Add records that the bytes of a place were wrong or broke off.
func (f *PlaceFailures) Add(place string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil || len(f.at) >= maxFailures {
		f.at = map[string]time.Time{}
	}
	f.at[place] = f.Now()
}

func (f *PlaceFailures) has(place string) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.at[place]
	return ok && f.Now().Sub(at) < remembered
}

// PlaceOf returns the name of a place for people, and for Failures.
func PlaceOf(a machineconfig.Artifact) string { return a.Registry + "/" + a.Repository }

// anywhere tries the places of an artifact until one succeeds. The error of several is a *PlacesError.
func anywhere[T any](ctx context.Context, r RegistryReader, a machineconfig.Artifact,
	try func(at machineconfig.Artifact,
		isOne bool) (T, error),
) (T, error) {
	places, blocked := r.Mirrors.Of(a)
	slices.SortStableFunc(places, func(x, y machineconfig.Artifact) int {
		return cmp.Compare(rank(r.Failures.has(PlaceOf(x))), rank(r.Failures.has(PlaceOf(y))))
	})
	isOne := len(places) == 1 && len(blocked) == 0 && places[0] == a
	var bad []error
	for _, at := range places {
		out, err := try(at, isOne)
		if err == nil || isOne && r.Mirrors.Err() == nil || ctx.Err() != nil {
			return out, err
		}
		bad = append(bad, fmt.Errorf("%s: %w", PlaceOf(at), err))
	}
	for _, name := range blocked {
		bad = append(bad, fmt.Errorf("%s: blocked in registries.conf", name))
	}
	if err := r.Mirrors.Err(); err != nil {
		bad = append(bad, errors.New("some mirrors are not known: "+strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	var none T
	return none, &PlacesError{bad}
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}
