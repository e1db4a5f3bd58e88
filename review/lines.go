package review

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxLines is how many lines two texts may have between their common beginning and end for their differences to be
	// looked for; beyond, only counts are said. Nobody reads more.
	maxLines = 20_000
	// maxEdits bounds the search for the shortest script: its time and memory grow with the square of the edits. A text
	// that differs more is shown as replaced as a whole.
	maxEdits = 2_000
	// context is how many unchanged lines stand around a change.
	context = 3
)

// edit is a line of a script that makes b of a: kept (' '), removed ('-') or added ('+').
type edit struct {
	sign byte
	text string
}

// unified is the unified diff of two texts, without its header.
func unified(a, b []byte) string {
	x, y := lines(a), lines(b)
	edits, ok := script(x, y)
	if !ok {
		return fmt.Sprintf("content changed (%d lines → %d lines, too many to be compared)\n", len(x), len(y))
	}
	var out strings.Builder
	for _, h := range hunks(edits) {
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", h.span(h.a, '-'), h.span(h.b, '+'))
		for _, e := range h.edits {
			out.WriteByte(e.sign)
			out.WriteString(e.text)
		}
	}
	return out.String()
}

// lines splits into lines that each end in a newline; the last one says so where it had none.
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

// script finds a shortest script of edits; ok is false where the texts are too large to look for one.
func script(a, b []string) (edits []edit, ok bool) {
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

func add(edits []edit, sign byte, texts []string) []edit {
	for _, t := range texts {
		edits = append(edits, edit{sign, t})
	}
	return edits
}

// between is Myers' greedy algorithm. After d edits, reach holds for each diagonal k (index in a less index in b) how
// far into a the furthest path gets; the trail of all rounds leads back.
func between(a, b []string) []edit {
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

// reach is how far each diagonal gets; diagonal 0 is at index zero.
type reach struct {
	at   []int32
	zero int
}

// before is where the d-th edit arrives on diagonal k: from the diagonal above by adding a line, or from the one below
// by removing one, whichever got further.
func (r reach) before(k, d int) (i int, added bool) {
	if k == -d || k != d && r.at[r.zero+k-1] < r.at[r.zero+k+1] {
		return int(r.at[r.zero+k+1]), true
	}
	return int(r.at[r.zero+k-1]) + 1, false
}

// back walks from the end of both texts to their beginning.
func back(trail []reach, a, b []string) []edit {
	var out []edit
	i, j := len(a), len(b)
	for d := len(trail); d > 0; d-- {
		k := i - j
		from, added := trail[d-1].before(k, d)
		for i > from {
			i, j = i-1, j-1
			out = append(out, edit{' ', a[i]})
		}
		if added {
			j--
			out = append(out, edit{'+', b[j]})
		} else {
			i--
			out = append(out, edit{'-', a[i]})
		}
	}
	for i > 0 {
		i--
		out = append(out, edit{' ', a[i]})
	}
	slices.Reverse(out)
	return out
}

// numbered gives equal lines equal numbers, which compare faster than texts.
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

// hunk is a stretch of a script with its context; a and b count the lines before it.
type hunk struct {
	a, b  int
	edits []edit
}

// hunks cuts a script at stretches of unchanged lines that are longer than two contexts.
func hunks(edits []edit) (out []hunk) {
	var at []int // changes
	for i, e := range edits {
		if e.sign != ' ' {
			at = append(at, i)
		}
	}
	a, b, done := 0, 0, 0
	count := func(to int) {
		for ; done < to; done++ {
			if edits[done].sign != '+' {
				a++
			}
			if edits[done].sign != '-' {
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

// span is a hunk's place in one of the texts, as diff -u writes it. own is the sign of the lines that only this text has.
func (h hunk) span(before int, own byte) string {
	n := 0
	for _, e := range h.edits {
		if e.sign == ' ' || e.sign == own {
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
