package repository_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/repository"
)

// reader returns evidence and counts its calls.
type reader struct {
	calls    int
	evidence source.Evidence
	err      error
	hold     chan struct{}
}

func (r *reader) read(ctx context.Context, p source.Picked) (source.Evidence, error) {
	r.calls++
	e := r.evidence
	e.Applied = p.Applied
	if r.hold != nil {
		select {
		case <-r.hold:
		case <-ctx.Done():
			return source.Evidence{}, context.Cause(ctx)
		}
	}
	return e, r.err
}

// TestEvidenceOfOneCommit: which sources share the commits that one of them read.
func TestEvidenceOfOneCommit(t *testing.T) {
	one := source.Picked{
		Ref: "main", FullName: "refs/heads/main", Hash: strings.Repeat("1", 40),
		Applied: strings.Repeat("0", 40),
	}
	otherRef, otherApplied, otherTag, first := one, one, one, one
	otherRef.FullName, otherApplied.Applied, otherTag.TagObject, first.Applied = "refs/heads/dev",
		strings.Repeat("2", 40), strings.Repeat("3", 40), ""
	small := source.Evidence{Commit: []byte("commit"), Descent: source.Descends}
	unknown, large := small, small
	unknown.Descent = source.Unknown
	large.Added = [][]byte{make([]byte, 1<<20)}
	for name, test := range map[string]struct {
		first, then source.Picked
		key         string
		evidence    source.Evidence
		calls       int
	}{
		"the same":                  {one, one, "key", small, 1},
		"other credentials":         {one, one, "other", small, 2},
		"another ref":               {one, otherRef, "key", small, 2},
		"another applied commit":    {one, otherApplied, "key", small, 2},
		"another tag":               {one, otherTag, "key", small, 2},
		"the relation is unknown":   {one, one, "key", unknown, 2},
		"nothing is applied":        {first, first, "key", unknown, 1},
		"too large to be stored":    {one, one, "key", large, 2},
		"nothing is applied to one": {one, first, "key", small, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var e repository.Evidence
			r := &reader{evidence: test.evidence}
			for _, q := range []struct {
				key string
				of  source.Picked
			}{{"key", test.first}, {test.key, test.then}} {
				got, err := e.Read(t.Context(), q.key, q.of, r.read)
				if err != nil || got.Applied != q.of.Applied || string(got.Commit) != "commit" {
					t.Errorf("got %v, %v", got, err)
				}
			}
			if r.calls != test.calls {
				t.Errorf("%d calls, want %d", r.calls, test.calls)
			}
		})
	}
}

// TestWaitingForEvidence: sources that need the same commits at once.
func TestWaitingForEvidence(t *testing.T) {
	p := source.Picked{Ref: "main", Hash: strings.Repeat("1", 40)}
	for name, test := range map[string]struct {
		err     error
		timeout time.Duration // of the source that reads first
		calls   int
		failed  int // of ten other sources
	}{
		"an answer is for all":                         {nil, time.Hour, 1, 0},
		"an error is for all":                          {errors.New("refused"), time.Hour, 1, 10},
		"the end of one timeout is not for the others": {nil, time.Second, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var e repository.Evidence
				r := &reader{err: test.err, hold: make(chan struct{})}
				ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
				defer cancel()
				go func() { _, _ = e.Read(ctx, "key", p, r.read) }()
				synctest.Wait()
				results := make(chan error, 10)
				for range 10 {
					go func() {
						_, err := e.Read(t.Context(), "key", p, r.read)
						results <- err
					}()
				}
				time.Sleep(2 * time.Second) // of the bubble's clock
				synctest.Wait()
				close(r.hold)
				failed := 0
				for range 10 {
					if err := <-results; err != nil {
						failed++
					}
				}
				if r.calls != test.calls || failed != test.failed {
					t.Errorf("%d calls, %d failed; want %d and %d", r.calls, failed, test.calls, test.failed)
				}
			})
		})
	}
}

// TestEvidenceIsBounded: users may create GitSources with new addresses all the time.
func TestEvidenceIsBounded(t *testing.T) {
	var e repository.Evidence
	r := &reader{}
	p := source.Picked{Ref: "main", Hash: strings.Repeat("1", 40)}
	for i := range 3000 {
		if _, err := e.Read(t.Context(), fmt.Sprint(i), p, r.read); err != nil {
			t.Fatal(err)
		}
	}
	again := 0
	for i := range 3000 {
		before := r.calls
		_, _ = e.Read(t.Context(), fmt.Sprint(i), p, func(context.Context, source.Picked) (source.Evidence, error) {
			again++
			return source.Evidence{}, errors.New("not stored")
		})
		r.calls = before
	}
	if again != 2000 {
		t.Errorf("%d of 3000 were not stored, want 2000", again)
	}
}
