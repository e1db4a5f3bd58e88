package cluster

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// However often a token is used: the bootstrap tokens that are good at once have an end, and there are new ones as those end.
func TestBootstrapTokensAreNotMintedWithoutEnd(t *testing.T) {
	c, got := secrets(t, metav1.StatusReasonForbidden, 0)
	now := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	c.Now = func() time.Time { return now }
	mint := func() error {
		_, err := c.Mint(t.Context(), For{Pool: "worker"})
		return err
	}
	for range mintsAnHour - 1 {
		c.minted.add(now)
	}
	if err := mint(); err != nil {
		t.Fatalf("the last one: %v", err)
	}
	for _, later := range []time.Duration{0, 30 * time.Minute, 29 * time.Minute} {
		now = now.Add(later)
		if err := mint(); err == nil || !strings.Contains(err.Error(), "20000 of this server are good already") {
			t.Errorf("at %s: %v", now, err)
		}
	}
	now = now.Add(time.Minute)
	if err := mint(); err != nil || len(*got) != 2 {
		t.Errorf("an hour later: %v after %d", err, len(*got))
	}
}

// What the API server did not take is not counted: a storm of machines that ask again and again while it is away does not use
// up what they need when it is back.
func TestWhatWasNotMintedDoesNotCount(t *testing.T) {
	c, _ := secrets(t, metav1.StatusReasonForbidden, 1)
	for range mintsAnHour - 1 {
		c.minted.add(c.Now())
	}
	if _, err := c.Mint(t.Context(), For{Pool: "worker"}); err == nil {
		t.Fatal("minted what is forbidden")
	}
	if _, err := c.Mint(t.Context(), For{Pool: "worker"}); err != nil {
		t.Error(err)
	}
}
