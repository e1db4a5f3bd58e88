package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOwnConfigsAreThoseThatWereNeededLast plays random requests, in memory and on disk.
func TestOwnConfigsAreThoseThatWereNeededLast(t *testing.T) {
	for _, onDisk := range []bool{false, true} {
		var cache *Cache
		if onDisk {
			var err error
			if cache, err = OpenCache(t.TempDir(), slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
		}
		o := newOwnConfigs(cache, slog.New(slog.DiscardHandler))
		o.maxBytes = 100
		g := rand.New(rand.NewPCG(1, 5))
		var last []string // without repetitions, the newest first
		sizes := map[string]int{}
		for range 200 {
			name := fmt.Sprint(g.IntN(10))
			last = append([]string{name}, slices.DeleteFunc(last, func(n string) bool { return n == name })...)
			sizes[name] = 1 + g.IntN(60)
			o.put(name, bytes.Repeat([]byte("a"), sizes[name]))
			sum, kept := 0, 0
			for i, n := range last {
				raw, ok := o.get(n)
				if !ok {
					continue
				}
				if sum, kept = sum+sizes[n], kept+1; sum > 100 || i >= kept || len(raw) != sizes[n] {
					t.Fatalf("on disk: %v: config %d of %v is kept, with %d bytes of %d", onDisk, i, last, len(raw),
						sizes[n])
				}
			}
			if kept == 0 || sum != o.bytes {
				t.Fatalf("on disk: %v: %d are kept, with %d bytes, not %d", onDisk, kept, o.bytes, sum)
			}
		}
		if onDisk {
			again := newOwnConfigs(cache, o.log)
			if again.bytes != o.bytes || again.recent.Len() != o.recent.Len() {
				t.Errorf("after a restart there are %d bytes of %d", again.bytes, o.bytes)
			}
		}
		for _, n := range last {
			o.drop(n)
		}
		if o.bytes != 0 || len(cache.Keys()) != 0 {
			t.Errorf("%d bytes are left, and %v", o.bytes, cache.Keys())
		}
	}
}
