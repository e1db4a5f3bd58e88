package view

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestTheCacheIsBounded: the results that nobody used for the longest time leave the cache first, and a result larger
// than the cache is not stored.
func TestTheCacheIsBounded(t *testing.T) {
	c, now, reads := &DetailCache{}, time.Unix(1e9, 0), 0
	read := func(key string, size int) {
		t.Helper()
		got, err := cached(c, key, lasts(now, time.Hour), func() (result[string], error) {
			reads++
			return result[string]{key, size}, nil
		})
		if got != key || err != nil {
			t.Fatalf("read %q, %v", got, err)
		}
		now = now.Add(time.Second)
	}
	for i := range 100 {
		read(fmt.Sprint(i), 1<<20)
		read("0", 1<<20)
	}
	if reads != 100 || c.bytes > maxBytes || len(c.entries) < 60 {
		t.Errorf("%d reads, %d bytes in %d results", reads, c.bytes, len(c.entries))
	}
	read("large", maxBytes)
	read("large", maxBytes)
	if reads != 102 || c.bytes > maxBytes {
		t.Errorf("%d reads, %d bytes", reads, c.bytes)
	}
}

// TestOnlyRefusalsAreKept: a refusal of the API server is repeated for some seconds only, and an outage not at all.
func TestOnlyRefusalsAreKept(t *testing.T) {
	c, now, reads := &DetailCache{}, time.Unix(1e9, 0), 0
	read := func(key string, fails error, after time.Duration) {
		_, err := cached(c, key, lasts(now.Add(after), time.Hour), func() (result[int], error) {
			reads++
			return result[int]{}, fails
		})
		if !errors.Is(err, fails) {
			t.Errorf("the error is %v", err)
		}
	}
	outage := errors.New("no connection")
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "x", errors.New("no right"))
	read("a", refused, 0)
	read("a", refused, time.Second)
	if reads != 1 {
		t.Errorf("%d reads within a second", reads)
	}
	read("a", refused, 2*reportAge)
	read("b", outage, 0)
	read("b", outage, 0)
	if reads != 4 {
		t.Errorf("%d reads", reads)
	}
}
