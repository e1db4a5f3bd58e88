package repository_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunsen-os/bunsen/source/repository"
)

// TestALargeListingIsNotStored: a server decides how many refs it has, and must not fill the memory. Sources that poll
// at the same time still share one listing.
func TestALargeListingIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c repository.Listings
		var many []string
		for i := range 60_000 {
			many = append(many, fmt.Sprintf("refs/tags/v%06d=1", i))
		}
		r := &remote{refs: refs(many...), hold: make(chan struct{})}
		for i := range 20 {
			go func() {
				if found := r.poll(t, &c, request("key", fmt.Sprint(i), noon, "refs/tags/")); len(found.Refs) != len(
					many) || !found.At.Equal(noon) {
					t.Errorf("got %d refs of %s", len(found.Refs), found.At)
				}
			}()
		}
		synctest.Wait()
		close(r.hold)
		synctest.Wait()
		if n := r.count(); n != 1 {
			t.Errorf("%d listings for sources that poll at the same time", n)
		}
		r.poll(t, &c, request("key", "later", noon.Add(time.Second), "refs/tags/"))
		if n := r.count(); n != 2 {
			t.Errorf("the large listing is stored: %d listings", n)
		}
	})
}

// TestManyListingsHaveALimit: many servers with long lists of refs fill no more memory together than a few.
func TestManyListingsHaveALimit(t *testing.T) {
	var c repository.Listings
	var many []string
	for i := range 25_000 { // about 2 MB in memory
		many = append(many, fmt.Sprintf("refs/tags/v%06d=1", i))
	}
	r := &remote{refs: refs(many...)}
	stored := 0
	for i := range 40 {
		key := fmt.Sprint("key", i)
		r.poll(t, &c, request(key, "first", noon, "refs/tags/"))
		before := r.count()
		r.poll(t, &c, request(key, "second", noon, "refs/tags/"))
		if r.count() == before {
			stored++
		}
	}
	if stored < 20 || stored > 33 {
		t.Errorf("the listings of %d repositories are stored", stored)
	}
}
