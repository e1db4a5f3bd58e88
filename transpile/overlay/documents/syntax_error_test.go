package documents

import (
	"bytes"
	"strings"
	"testing"
)

// A mistake is found wherever it is: with its line as the last, the text does not parse; without it, it does.
func TestBrokenFindsTheLine(t *testing.T) {
	const item = "    - path: /etc/a\n      mode: 0644\n      contents:\n        inline: |\n          x\n"
	for name, mistake := range map[string]string{
		"a tab": "\t  mode: 0644\n", "an indentation": "     mode: 0644\n",
		"a colon": "    - path: a: b\n",
	} {
		for _, before := range []int{1, 2, 30, 200} {
			text := "storage:\n  files:\n" + strings.Repeat(item, before) + mistake + strings.Repeat(item, 7)
			if got, want := broken(bytes.SplitAfter([]byte(text), []byte("\n"))), 2+5*before+1; got != want {
				t.Errorf("%s after %d items: line %d, want %d", name, before, got, want)
			}
		}
	}
}

// What spans lines is not blamed for its first line.
func TestBrokenLeavesWhatSpansLinesToTheParser(t *testing.T) {
	for _, text := range []string{"a: [1,\n  2\nb: 3\n", "a: \"x\n  y\nb: z\n"} {
		if got := broken(bytes.SplitAfter([]byte(text), []byte("\n"))); got == 1 {
			t.Errorf("%q: line 1", text)
		}
	}
}
