package http

import (
	"fmt"
	"strings"
	"testing"
)

// TestWhoLeavesALineNext plays stories against a line and compares what they say. Steps: "a1" waits for key a; "-a1" is
// removed; "." lets the next one leave, ".3" of at most three keys; "!" removes the last one of the longest queue; "*"
// removes the oldest ones, as long as they are gone. A value that ends in "s" stays, and one that ends in "g" is gone
// when its turn comes.
func TestWhoLeavesALineNext(t *testing.T) {
	for because, c := range map[string]struct {
		lastFirst   bool
		story, want string
	}{
		"nothing waits":                      {false, ".", "none"},
		"what waits for one key, in order":   {false, "a1 a2 a3 . . . .", "a1 a2 a3 none"},
		"keys take turns":                    {false, "a1 a2 a3 b1 b2 c1 . . . . . .", "a1 b1 c1 a2 b2 a3"},
		"a new key waits for one turn":       {false, "a1 a2 a3 a4 . b1 . . .", "a1 a2 b1 a3"},
		"the last one first":                 {true, "a1 a2 a3 . . a4 . .", "a3 a2 a4 a1"},
		"the last one of each key first":     {true, "a1 a2 a3 b1 b2 b3 . . . .", "a3 b3 a2 b2"},
		"the first one is removed then":      {true, "a1 a2 b1 ! . .", "a1 a2 b1"},
		"the next key, if one stays":         {false, "a1s b1 . . .", "b1 none none"},
		"no more keys than are looked at":    {false, "a1s b1s c1 .2 .2", "none c1"},
		"the next value, if one is gone":     {false, "a1g a2 b1 . .", "a2 b1"},
		"the next key, if all are gone":      {false, "a1g a2g b1 . .", "b1 none"},
		"one that was removed does not":      {false, "a1 a2 b1 -a1 . . .", "a2 b1 none"},
		"a key of which all were removed":    {false, "a1 b1 -a1 . .", "b1 none"},
		"the last of the longest is removed": {false, "a1 b1 b2 b3 c1 c2 ! . . . . . .", "b3 a1 b1 c1 b2 c2 none"},
		"the longest changes":                {false, "a1 a2 a3 b1 b2 -a1 -a2 !", "b2"},
		"the oldest ones are gone":           {true, "a1g b1g a2 * . .", "a2 none"},
		"a key waits again":                  {false, "a1 . b1 a2 . .", "a1 b1 a2"},
	} {
		l := line[byte, string]{lastFirst: c.lastFirst}
		places := map[string]place[byte]{}
		var said []string
		for step := range strings.FieldsSeq(c.story) {
			switch step[0] {
			case '.':
				most := 100
				_, _ = fmt.Sscanf(step, ".%d", &most)
				value, ok := l.next(most, func(_ byte, value string) verdict {
					switch value[len(value)-1] {
					case 's':
						return stays
					case 'g':
						return gone
					}
					return leaves
				})
				if !ok {
					value = "none"
				}
				said = append(said, value)
			case '!':
				_, value := l.removeLast()
				said = append(said, value)
			case '*':
				l.removeGone(func(_ byte, value string) bool { return value[len(value)-1] == 'g' })
			case '-':
				l.remove(places[step[1:]])
			default:
				places[step] = l.push(step[0], step)
			}
		}
		if got := strings.Join(said, " "); got != c.want {
			t.Errorf("%s: %q says %q, want %q", because, c.story, got, c.want)
		}
		if waiting := l.longest.Len(); waiting != len(l.keys) || waiting != l.turns.Len() || l.count < waiting ||
			l.count != l.order.Len() {
			t.Errorf("%s: %d queues, %d keys, %d turns, %d values", because, waiting, len(l.keys), l.turns.Len(),
				l.count)
		}
	}
}
