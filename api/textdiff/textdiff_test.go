package textdiff

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
)

// applied are the two texts that a script speaks of.
func applied(edits []Edit) (a, b []string) {
	for _, e := range edits {
		if e.Sign != '+' {
			a = append(a, e.Text)
		}
		if e.Sign != '-' {
			b = append(b, e.Text)
		}
	}
	return a, b
}

func changes(edits []Edit) (n int) {
	for _, e := range edits {
		if e.Sign != ' ' {
			n++
		}
	}
	return n
}

// TestAScriptLeadsFromOneTextToTheOtherOnAShortWay compares with another library: never more edits than its.
func TestAScriptLeadsFromOneTextToTheOtherOnAShortWay(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	text := func() []string {
		out := make([]string, r.Intn(30))
		for i := range out {
			out[i] = fmt.Sprintf("line %d\n", r.Intn(6))
		}
		return out
	}
	for range 20_000 {
		a, b := text(), text()
		edits, ok := Script(a, b)
		x, y := applied(edits)
		if !ok || !slices.Equal(a, x) || !slices.Equal(b, y) {
			t.Fatalf("from %q to %q: %v", a, b, edits)
		}
		theirs := 0
		for _, op := range difflib.NewMatcher(a, b).GetOpCodes() {
			if op.Tag != 'e' {
				theirs += op.I2 - op.I1 + op.J2 - op.J1
			}
		}
		if ours := changes(edits); ours > theirs {
			t.Fatalf("from %q to %q with %d edits, %d would do", a, b, ours, theirs)
		}
	}
}

// TestUnifiedIsWrittenAsOthersDo compares hunks and their numbers with the library's, for texts whose lines are all
// different, where there is one shortest script only.
func TestUnifiedIsWrittenAsOthersDo(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	for range 2_000 {
		var a, b []string
		for i := range r.Intn(60) {
			line := fmt.Sprintf("%d\n", i)
			switch r.Intn(12) {
			case 0:
				a = append(a, line)
			case 1:
				b = append(b, line)
			default:
				a, b = append(a, line), append(b, line)
			}
		}
		want, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: a, B: b, Context: context})
		if err != nil {
			t.Fatal(err)
		}
		if got := Unified([]byte(strings.Join(a, "")), []byte(strings.Join(b, ""))); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestUnified(t *testing.T) {
	for sentence, c := range map[string]struct{ a, b, want string }{
		"nothing differs":             {"a\n", "a\n", ""},
		"a text that comes":           {"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"a text that goes":            {"a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		"a newline at the end comes":  {"a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		"no newline on either side":   {"a\nb", "c\nb", "@@ -1,2 +1,2 @@\n-a\n+c\n b\n\\ No newline at end of file\n"},
		"line ends of another system": {"a\n", "a\r\n", "@@ -1 +1 @@\n-a\n+a\r\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := Unified([]byte(c.a), []byte(c.b)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func numberedLines(n int, f func(i int) string) []byte {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i) + "\n")
	}
	return []byte(b.String())
}

func TestLargeTextsAreComparedInBoundedTime(t *testing.T) {
	plain := func(i int) string { return fmt.Sprint("line ", i) }
	everySecond := func(i int) string { return fmt.Sprint("line ", i-i%2*1_000_000) }
	if got := Unified(numberedLines(200_000, plain), numberedLines(200_001, plain)); !strings.HasPrefix(got,
		"@@ -199998,3 +199998,4 @@") {
		t.Errorf("one line more at the end of a large text: %.200q", got)
	}
	got := Unified(numberedLines(9_000, plain), numberedLines(9_000, everySecond))
	if strings.Count(got, "\n-") < 4_000 || strings.Count(got, "\n+") < 4_000 {
		t.Errorf("every second line differs: %.200q", got)
	}
	if got := Unified(numberedLines(15_000, plain), numberedLines(15_000, everySecond)); got != "content changed "+
		"(15000 lines → 15000 lines, too many to be compared)\n" {
		t.Errorf("%.200q", got)
	}
}

func FuzzUnified(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte("a\nc\n"))
	f.Add([]byte(""), []byte("\n\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		edits, ok := Script(lines(a), lines(b))
		if !ok {
			return
		}
		x, y := applied(edits)
		if !slices.Equal(x, lines(a)) || !slices.Equal(y, lines(b)) {
			t.Errorf("from %q to %q: %v", a, b, edits)
		}
		if (Unified(a, b) == "") != (string(a) == string(b)) {
			t.Errorf("from %q to %q: %q", a, b, Unified(a, b))
		}
	})
}
