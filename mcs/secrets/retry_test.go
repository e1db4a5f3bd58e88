package secrets

import (
	"testing"
	"time"
)

// TestAKeyServiceThatFailsIsAskedMoreAndMoreSeldom plays the failures of an hour.
func TestAKeyServiceThatFailsIsAskedMoreAndMoreSeldom(t *testing.T) {
	start := time.Unix(1e9, 0)
	r, asked := retry{}.after(true, start), []time.Duration(nil)
	for now := start; now.Before(start.Add(time.Hour)); now = now.Add(readInterval) {
		if r.isDue(now) {
			asked = append(asked, now.Sub(start))
			r = r.after(true, now)
		}
	}
	if len(asked) != 16 || asked[0] != readInterval || asked[1] != 3*readInterval || asked[15]-asked[14] != maxWait {
		t.Errorf("asked after %v", asked)
	}
	if r = r.after(false, start); r.isDue(start.Add(time.Hour)) {
		t.Error("it is asked again after an answer")
	}
	if r = r.after(true, start); !r.isDue(start.Add(readInterval)) {
		t.Error("a new failure waits as long as the last one")
	}
}
