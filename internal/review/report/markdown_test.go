package report

import (
	"fmt"
	"math/rand"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/internal/review"
)

// nasty are texts that want to break out of where they are put.
var nasty = []string{
	"", "plain", "/etc/a|b", "/etc/`whoami`", "``` ```", "~~~~", "\n```\n", "<details>", "</details>",
	"</summary><script>", "<!-- x -->", "-->",
	"@octocat", "#123", "org/repo#1", "GH-12", "https://evil.example/@me", "www.evil.example",
	"![x](https://evil.example/x.png)", "[x](javascript:alert)",
	"a\\|b", "\x1b[2J", "\u202egpj.exe", "\u2028/close", "/close", "| --- |", "**bold**", "_x_", "$x$", "\xff\xfe",
	"&#124;", strings.Repeat("`", 50), strings.Repeat("~", 9),
	strings.Repeat("@", 300), strings.Repeat("long ", 2_000), strings.Repeat("é", 500),
	"rendered-worker-0123456789abcdef", "worker",
}

// arbitrary draws a comparison that no repository would give.
func arbitrary(r *rand.Rand, most int, more ...string) review.Comparison {
	words := append(nasty[:len(nasty):len(nasty)], more...)
	word := func() string { return words[r.Intn(len(words))] }
	list := func(limit int) (out []string) {
		for range r.Intn(limit) {
			out = append(out, word())
		}
		return out
	}
	c := review.Comparison{
		Base: word(), Head: word(), ClusterChanges: review.ClusterChanges{Policy: list(4)},
		Undo: word(),
	}
	if r.Intn(2) == 0 {
		c.HeadCommit = &review.Commit{Hash: word()}
	}
	for range r.Intn(5) {
		p := review.PoolChange{Pool: word(), From: word(), To: word(), Disruption: []string{
			"none", "reload", "drain",
			"reboot", "odd",
		}[r.Intn(5)], Refused: list(3), NewNodesOnly: list(3)}
		if r.Intn(3) == 0 {
			p.To = p.From
		}
		for range r.Intn(3) {
			p.Notices = append(p.Notices, review.Notice{Rule: word(), Message: word(), Inputs: list(3)})
		}
		if r.Intn(2) == 0 {
			p.Rollout = &review.Rollout{
				Nodes: r.Intn(9), AtOnce: r.Intn(3), Reboots: r.Intn(9), Paused: r.Intn(2) == 0,
				MinMinutes: r.Intn(90), MaxMinutes: r.Intn(9000),
			}
		}
		for range min(most, []int{0, 1, 3, 20, 150}[r.Intn(5)]) {
			p.Items = append(p.Items, arbitraryItem(r, word))
		}
		c.Pools = append(c.Pools, p)
	}
	return c
}

func arbitraryItem(r *rand.Rand, word func() string) review.Item {
	it := review.Item{
		Kind: []string{"file", "unit", "kargs", "user", word()}[r.Intn(5)], Path: word(),
		Change: []string{"added", "changed", "removed", word()}[r.Intn(4)],
		Why:    word(), Origin: word(),
		Actions: []review.Action{{
			Type:    []string{"None", "Reboot", "Drain", "Reload", word()}[r.Intn(5)],
			Service: word(),
		}},
	}
	switch r.Intn(6) {
	case 0:
		it.RenamedFrom = word()
	case 1:
		it.RenamedTo = word()
	case 2:
		it.Origins = map[string]string{word(): word(), word(): word()}
	}
	for range r.Intn(30) {
		it.Diff += []string{"+", "-", " ", "@", ""}[r.Intn(5)] + word() + []string{"\n", "\n", "\n", ""}[r.Intn(4)]
	}
	return it
}

var fenceLine = regexp.MustCompile("^(`{3,}|~{3,})(diff)?$")

// outside returns the lines that are not in a fence, and whether all fences are closed.
func outside(text string) (lines []string, balanced bool) {
	open := ""
	for _, l := range strings.Split(text, "\n") {
		m := fenceLine.FindStringSubmatch(l)
		switch {
		case open == "" && m != nil && m[2] == "diff":
			open = m[1]
		case open == "":
			lines = append(lines, l)
		case closes(l, open):
			open = ""
		}
	}
	return lines, open == ""
}

// closes tells whether a line ends a fence, as CommonMark has it: up to three blanks, as long a run or longer, no more.
func closes(line, open string) bool {
	text := strings.TrimLeft(line, " ")
	run := strings.TrimRight(text, " \t")
	return len(line)-len(text) < 4 && len(run) >= len(open) && strings.Trim(run, open[:1]) == ""
}

var (
	codeSpan    = regexp.MustCompile("`[^`]*`")
	summaryLine = regexp.MustCompile(
		`^<details( open)?><summary>(<code>[^<]*</code>(, )?)*([0-9,]+ more)? · [0-9,]+ changes? \([+~0-9 -]*\)</summary>$`)
	htmlCode = regexp.MustCompile(`</?code>`)
)

// holds checks what every comment keeps, whatever is in it.
func holds(t *testing.T, text string, limit int) {
	t.Helper()
	if len(text) > limit {
		t.Errorf("%d bytes, at most %d", len(text), limit)
	}
	if !strings.HasPrefix(text, "<!-- bunsen:plan:v1:") || strings.Count(strings.SplitN(text, "\n", 2)[0], "--") != 2 {
		t.Errorf("no marker at the beginning: %.100q", text)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && isObeyed(r) || unicode.Is(unicode.Bidi_Control, r)
	}) {
		t.Error("characters that do something")
	}
	lines, balanced := outside(text)
	if !balanced {
		t.Error("a fence is not closed")
	}
	depth := 0
	for i, l := range lines[1:] {
		switch {
		case strings.HasPrefix(l, "<details"):
			if depth++; !summaryLine.MatchString(l) {
				t.Errorf("a summary that is none: %q", l)
			}
			continue
		case l == "</details>":
			depth--
		}
		if depth < 0 || depth > 1 {
			t.Fatalf("details are not balanced at line %d", i)
		}
		plain := codeSpan.ReplaceAllString(l, "")
		if strings.HasPrefix(l, "| ") {
			if n := strings.Count(l, "|"); n != 7 && n != 10 || strings.Contains(plain, "`") {
				t.Errorf("a row with %d bars: %q", n, l)
			}
		}
		plain = htmlCode.ReplaceAllString(plain, "")
		if strings.ContainsAny(strings.ReplaceAll(plain, "&#", ""), "@#") && !strings.HasPrefix(l, "### ") {
			t.Errorf("mentions something: %q", plain)
		}
		if rest := strings.TrimPrefix(strings.TrimPrefix(plain, "</details>"), "> "); strings.ContainsAny(rest, "<>") &&
			rest != ">" || strings.Contains(rest, "://") || strings.Contains(rest, "](") {
			t.Errorf("has HTML or a link: %q", plain)
		}
		if strings.HasPrefix(l, "/") {
			t.Errorf("a line that is a command to a host: %q", l)
		}
	}
	if depth != 0 {
		t.Error("details are not closed")
	}
}

func TestMarkdownHoldsWhateverIsInIt(t *testing.T) {
	for seed := range int64(200) {
		r := rand.New(rand.NewSource(seed))
		c := arbitrary(r, 150)
		o := MarkdownOptions{Key: nasty[r.Intn(len(nasty))], Limit: []int{0, 1, MinLimit, 20_000}[r.Intn(4)]}
		limit := max(o.Limit, MinLimit)
		if o.Limit == 0 {
			limit = DefaultLimit
		}
		text := Markdown(c, o)
		holds(t, text, limit)
		if text != Markdown(c, o) {
			t.Error("other bytes the second time")
		}
		if s := Summary(c); len(s) > maxSummary || s == "" || strings.ContainsFunc(s, isObeyed) {
			t.Errorf("the summary is %q", s)
		}
		if strings.ContainsAny(Text(c, Style{}), "\x1b\u202e") {
			t.Error("the text for terminals has characters that a terminal obeys")
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, text)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for i, text := range nasty {
		f.Add(int64(i), text, "+"+text+"\n")
	}
	f.Fuzz(func(t *testing.T, seed int64, name, diff string) {
		c := arbitrary(rand.New(rand.NewSource(seed)), 3, name, name)
		c.Pools = append(c.Pools, review.PoolChange{
			Pool: name, From: "a", To: "b", Disruption: "reboot",
			Items: []review.Item{{Kind: "file", Path: name, Change: "changed", Content: review.Content{Diff: diff}}},
		})
		holds(t, Markdown(c, MarkdownOptions{Key: name}), DefaultLimit)
	})
}

// TestALargeChangeIsCutPerFile: small differences stay whole, of large ones the beginning is shown and the rest
// counted.
func TestALargeChangeIsCutPerFile(t *testing.T) {
	large := ""
	for i := range 5_000 {
		large += fmt.Sprintf("+a line of a large file, number %d\n", i)
	}
	c := review.Comparison{
		Base: "a", Head: "b",
		Pools: []review.PoolChange{{Pool: "worker", From: "x", To: "y", Disruption: "reboot", Items: []review.Item{
			{Kind: "file", Path: "/etc/large", Change: "added", Content: review.Content{Diff: large}},
			{Kind: "file", Path: "/etc/larger", Change: "added", Content: review.Content{Diff: large + large}},
			{Kind: "file", Path: "/etc/small", Change: "added", Content: review.Content{Diff: "+one line\n"}},
			{Kind: "file", Path: "/etc/wide", Change: "added", Content: review.Content{Diff: "+" + strings.Repeat("wide", 50_000) + "\n"}},
		}}},
	}
	text := Markdown(c, MarkdownOptions{Full: "[whole](https://ci.example/1)"})
	holds(t, strings.ReplaceAll(text, "[whole](https://ci.example/1)", "whole"), DefaultLimit)
	if len(text) < DefaultLimit*9/10 {
		t.Errorf("only %d bytes are used", len(text))
	}
	for _, want := range []string{
		"+one line\n```\n\n", "`+ /etc/larger`", "…\n```\n… 1 line (+1 −0) not shown: [whole](https://ci.example/1)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if n := len(regexp.MustCompile(`… [0-9,]+ lines \(\+[0-9,]+ −0\) not shown: \[whole\]`).FindAllString(text,
		-1)); n != 2 {
		t.Errorf("%d files say how much is left out, want 2", n)
	}
}

func TestManyChangesAreCounted(t *testing.T) {
	p := review.PoolChange{Pool: "worker", From: "x", To: "y", Disruption: "none"}
	for i := range 5_000 {
		p.Items = append(p.Items, review.Item{
			Kind: "file", Path: fmt.Sprintf("/etc/%d", i), Change: "added",
			Content: review.Content{Diff: "+x\n"},
		})
	}
	text := Markdown(review.Comparison{Pools: []review.PoolChange{p}}, MarkdownOptions{})
	holds(t, text, DefaultLimit)
	if !regexp.MustCompile("\n</details>\n\n… and 4,[0-9]{3} more changes not shown: `bunsen diff` shows the whole\n").
		MatchString(text) {
		t.Errorf("the rest is not counted: %s", text[len(text)-300:])
	}
}

func TestNamesShowAsThemselves(t *testing.T) {
	for text, want := range map[string]string{
		"/etc/chrony.conf":     "`/etc/chrony.conf`",
		"/etc/systemd/a@.conf": "`/etc/systemd/a@.conf`",
		"a|b":                  "<code>a&#124;b</code>",
		"a`b":                  "<code>a&#96;b</code>",
		"<b>@x":                "<code>&#60;b&#62;&#64;&#8203;x</code>",
		"\x1b[2J":              "<code>\\x1b&#91;2J</code>",
		"":                     "",
	} {
		if got := code(text); strings.ReplaceAll(got, "&#92;", "\\") != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"rule /etc/a":         "rule /etc/a",
		"ask @ada about #12":  "ask &#64;&#8203;ada about &#35;&#8203;12",
		"see https://x.y/z":   "see https:&#8203;//x.y/z",
		"see www.example.com": "see www&#8203;.example.com",
		"as in GH-12":         "as in GH&#8203;-12",
		"<b> | *x*":           "&#60;b&#62; &#124; &#42;x&#42;",
	} {
		if got := prose(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// isObeyed reports whether a terminal or a browser acts on a character, or does not show it.
func isObeyed(r rune) bool {
	return unicode.IsControl(r) && r != '\t' || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
