package textdiff

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxLines limits the lines between the common beginning and the common end of two texts. For more lines, Unified
	// reports only counts, because no user reads so many lines.
	maxLines = 20_000
	// maxEdits limits the search for the shortest script, because its time and memory grow with the square of the
	// edits. For more edits, the script replaces the whole text.
	maxEdits = 2_000
	// context is the number of unchanged lines around a change.
	context = 3
)

// Edit is a line of a script that turns one text into another: kept (' '), removed ('-') or added ('+').
type Edit struct {
	Sign byte
	Text string
}

// Unified returns the unified diff of two texts, without its header.
func Unified(a, b []byte) string {
	x, y := lines(a), lines(b)
	edits, ok := Script(x, y)
	if !ok {
		return fmt.Sprintf("content changed (%d lines → %d lines, too many to be compared)\n", len(x), len(y))
	}
	var out strings.Builder
	for _, h := range hunks(edits) {
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", h.span(h.a, '-'), h.span(h.b, '+'))
		for _, e := range h.edits {
			out.WriteByte(e.Sign)
			out.WriteString(e.Text)
		}
	}
	return out.String()
}

// lines splits a text into lines that each end in a newline. If the last line does not end in a newline, lines adds a
// note.
func lines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	out := strings.SplitAfter(string(b), "\n")
	if last := len(out) - 1; out[last] == "" {
		out = out[:last]
	} else {
		out[last] += "\n\\ No newline at end of file\n"
	}
	return out
}

// Script returns a shortest script of edits from a to b. ok is false if there are more than maxLines lines. If the
// search needs more than maxEdits edits, the script replaces the whole text.
func Script(a, b []string) (edits []Edit, ok bool) {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	x, y := a[start:len(a)-end], b[start:len(b)-end]
	if len(x)+len(y) > maxLines {
		return nil, false
	}
	edits = add(edits, ' ', a[:start])
	edits = append(edits, between(x, y)...)
	return add(edits, ' ', a[len(a)-end:]), true
}

func add(edits []Edit, sign byte, texts []string) []Edit {
	for _, t := range texts {
		edits = append(edits, Edit{sign, t})
	}
	return edits
}

// between is Myers' greedy algorithm. After d edits, reach has the furthest index in a for each diagonal k (index in a
// minus index in b). The script follows from the reaches of all rounds.
func between(a, b []string) []Edit {
	if len(a) == 0 || len(b) == 0 {
		return add(add(nil, '-', a), '+', b)
	}
	x, y := numbered(a, b)
	limit := min(len(a)+len(b), maxEdits)
	r := reach{make([]int32, 2*limit+3), limit + 1}
	var trail []reach
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			i := 0
			if d > 0 {
				i, _ = r.before(k, d)
			}
			for i < len(x) && i-k < len(y) && x[i] == y[i-k] {
				i++
			}
			r.at[r.zero+k] = int32(i)
			if i >= len(x) && i-k >= len(y) {
				return back(trail, a, b)
			}
		}
		trail = append(trail, reach{slices.Clone(r.at[r.zero-d : r.zero+d+1]), d})
	}
	return add(add(nil, '-', a), '+', b)
}

// reach is the furthest index in a of each diagonal; diagonal 0 is at index zero.
type reach struct {
	at   []int32
	zero int
}

// before returns the position after the d-th edit on diagonal k. The d-th edit adds a line to a position of the
// diagonal above, or removes a line at a position of the diagonal below, whichever gets further.
func (r reach) before(k, d int) (i int, added bool) {
	if k == -d || k != d && r.at[r.zero+k-1] < r.at[r.zero+k+1] {
		return int(r.at[r.zero+k+1]), true
	}
	return int(r.at[r.zero+k-1]) + 1, false
}

// back follows the reaches of all rounds from the end of both texts to their beginning.
func back(trail []reach, a, b []string) []Edit {
	var out []Edit
	i, j := len(a), len(b)
	for d := len(trail); d > 0; d-- {
		k := i - j
		from, added := trail[d-1].before(k, d)
		for i > from {
			i, j = i-1, j-1
			out = append(out, Edit{' ', a[i]})
		}
		if added {
			j--
			out = append(out, Edit{'+', b[j]})
		} else {
			i--
			out = append(out, Edit{'-', a[i]})
		}
	}
	for i > 0 {
		i--
		out = append(out, Edit{' ', a[i]})
	}
	slices.Reverse(out)
	return out
}

// numbered gives equal lines equal numbers, because numbers compare faster than texts.
func numbered(a, b []string) (x, y []int32) {
	numbers := map[string]int32{}
	number := func(list []string) []int32 {
		out := make([]int32, len(list))
		for i, text := range list {
			n, ok := numbers[text]
			if !ok {
				n = int32(len(numbers))
				numbers[text] = n
			}
			out[i] = n
		}
		return out
	}
	return number(a), number(b)
}

// hunk is a part of a script with its context; a and b count the lines before it.
type hunk struct {
	a, b  int
	edits []Edit
}

// hunks splits a script at runs of unchanged lines that are longer than two contexts.
func hunks(edits []Edit) (out []hunk) {
	var at []int // indices of changes
	for i, e := range edits {
		if e.Sign != ' ' {
			at = append(at, i)
		}
	}
	a, b, done := 0, 0, 0
	count := func(to int) {
		for ; done < to; done++ {
			if edits[done].Sign != '+' {
				a++
			}
			if edits[done].Sign != '-' {
				b++
			}
		}
	}
	for n := 0; n < len(at); {
		last := n
		for last+1 < len(at) && at[last+1]-at[last] <= 2*context+1 {
			last++
		}
		from, to := max(at[n]-context, 0), min(at[last]+context+1, len(edits))
		count(from)
		out = append(out, hunk{a, b, edits[from:to]})
		n = last + 1
	}
	return out
}

// span returns a hunk's position in one of the texts, in the format of diff -u. own is the sign of the lines that only
// this text has.
func (h hunk) span(before int, own byte) string {
	n := 0
	for _, e := range h.edits {
		if e.Sign == ' ' || e.Sign == own {
			n++
		}
	}
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprint(before + 1)
	}
	return fmt.Sprintf("%d,%d", before+1, n)
}
