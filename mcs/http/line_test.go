package http

import (
	"fmt"
	"strings"
	"testing"
)

// TestWhoLeavesALineNext plays stories against a line and compares what they say. Steps: "a1" waits for key a; "-a1" is
// removed; "." lets the next one leave, ".3" of at most three keys; "!" names the oldest one, "!a" that of key a, and
// "!!" that of the longest queue. A value that ends in "s" may not leave.
func TestWhoLeavesALineNext(t *testing.T) {
	for because, c := range map[string]struct{ story, want string }{
		"nothing waits":                           {". ! !a !!", "none none none none"},
		"what waits for one key, the newest one":  {"a1 a2 a3 . . . .", "a3 a2 a1 none"},
		"keys take turns":                         {"a1 a2 a3 b1 b2 c1 . . . . . .", "a3 b2 c1 a2 b1 a1"},
		"a new key waits for one turn":            {"a1 a2 a3 a4 . b1 . . .", "a4 a3 b1 a2"},
		"a key waits again":                       {"a1 . b1 a2 . .", "a1 b1 a2"},
		"the next key, if one stays":              {"a1s b1 . . .", "b1 none none"},
		"no more keys than are looked at":         {"a1s b1s c1 .2 .2", "none c1"},
		"one that was removed does not":           {"a1 a2 b1 -a2 . . .", "a1 b1 none"},
		"a key of which all were removed":         {"a1 b1 -a1 . .", "b1 none"},
		"the oldest one":                          {"b1 a1 a2 ! !a !b", "b1 a1 b1"},
		"the oldest one of the longest queue":     {"a1 b1 b2 b3 c1 c2 !! -b1 !! -b2 !!", "b1 b2 c1"},
		"the longest changes":                     {"a1 a2 a3 b1 b2 -a1 -a2 !!", "b1"},
		"the oldest one of queues that are equal": {"a1 b1 c1 !! -a1 d1 !! -b1 e1 !!", "a1 b1 c1"},
		"the queue whose oldest one is older now": {"b1 a1 b2 a2 !! -b1 a3 -a3 !!", "b1 a1"},
	} {
		var l line[byte, string]
		places := map[string]*waiter[byte, string]{}
		var said []string
		name := func(w *waiter[byte, string]) {
			if w == nil {
				said = append(said, "none")
			} else {
				said = append(said, w.value)
			}
		}
		for step := range strings.FieldsSeq(c.story) {
			switch {
			case step[0] == '.':
				most := 100
				_, _ = fmt.Sscanf(step, ".%d", &most)
				value, ok := l.next(most, func(_ byte, value string) bool { return !strings.HasSuffix(value, "s") })
				if !ok {
					value = "none"
				}
				said = append(said, value)
			case step == "!":
				name(l.oldest())
			case step == "!!":
				name(l.oldestOfLongest())
			case step[0] == '!':
				name(l.oldestOf(step[1]))
			case step[0] == '-':
				l.remove(places[step[1:]])
			default:
				places[step] = l.push(step[0], step)
			}
		}
		if got := strings.Join(said, " "); got != c.want {
			t.Errorf("%s: %q says %q, want %q", because, c.story, got, c.want)
		}
		if waiting := l.longest.Len(); waiting != len(l.keys) || waiting != l.turns.Len() || l.count() < waiting {
			t.Errorf("%s: %d queues, %d keys, %d turns, %d values", because, waiting, len(l.keys), l.turns.Len(),
				l.count())
		}
	}
}
