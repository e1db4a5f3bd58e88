package download

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A server that sends a byte now and then does not hold a node: each window needs its share.
func TestAServerIsTooSlow(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := &body{stall: time.Minute, window: began}
	for minute, c := range []struct {
		read int64
		want string
	}{
		{1, ""}, // A slow begin is no failure before the window ends.
		{9, ""},
		{1 << 20, ""},
		{1 << 20, ""},
		{1 << 20, ""},
		{1 << 20, ""},
		{1 << 20, ""},
		{1 << 20, ""},
		{1 << 20, ""},
		{1 << 20, ""}, // The first window ends: a mebibyte is enough.
		{1<<20 + 1, ""},
		{1<<20 + 2, ""},
		{1<<20 + 3, ""},
		{1<<20 + 4, ""},
		{1<<20 + 5, ""},
		{1<<20 + 6, ""},
		{1<<20 + 7, ""},
		{1<<20 + 8, ""},
		{1<<20 + 9, ""},
		{1<<20 + 10, "the server sent 10 bytes in 10m0s, and at least 614400 are necessary"},
	} {
		b.read = c.read
		err := b.checkWindow(began.Add(time.Duration(minute+1) * time.Minute))
		if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			t.Fatalf("minute %d: %v, want %q", minute+1, err, c.want)
		}
	}
}

// A download that no node needs any more ends also while it waits for its rate.
func TestAnEndedRequestDoesNotWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &body{done: ctx.Done(), began: time.Now(), rate: 1, read: 1 << 40}
	b.slowDown() // It would take 35,000 years.
}
