package git

import (
	"cmp"
	"slices"
)

// maxPairs bounds the work on lines that repeat themselves: so many pairs of equal lines are weighed against each other.
const maxPairs = 1 << 20

// common maps lines of a to the same lines of b, in order and as many as can be: what no change between them touched.
// Both count from 0. Where lines repeat themselves too often to be weighed, the rarer ones and their neighbours decide.
func common(a, b []string) map[int]int {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	out := map[int]int{}
	last := pair{}
	for _, p := range append(longest(pairs(a[start:len(a)-end], b[start:len(b)-end])), pair{len(a) - start, len(b) - start}) {
		p = pair{p.a + start, p.b + start}
		fill(out, a[:p.a], b[:p.b], last)
		if p.a < len(a) {
			out[p.a] = p.b
		}
		last = pair{p.a + 1, p.b + 1}
	}
	return out
}

// fill adds the equal lines at both ends of what lies between two lines that are found.
func fill(out map[int]int, a, b []string, from pair) {
	for from.a < len(a) && from.b < len(b) && a[from.a] == b[from.b] {
		out[from.a] = from.b
		from.a, from.b = from.a+1, from.b+1
	}
	for i, j := len(a)-1, len(b)-1; i >= from.a && j >= from.b && a[i] == b[j]; i, j = i-1, j-1 {
		out[i] = j
	}
}

// pair is a line of each side with the same text.
type pair struct{ a, b int }

// pairs lists them by a, and for each a from the last b to the first, as longest wants it. Texts with too many pairs are
// left out, the most frequent ones first.
func pairs(a, b []string) []pair {
	left, right := map[string]int{}, map[string][]int{}
	for _, s := range a {
		left[s]++
	}
	for j := len(b) - 1; j >= 0; j-- {
		right[b[j]] = append(right[b[j]], j)
	}
	cost := func(s string) int { return left[s] * len(right[s]) }
	var texts []string
	for s := range left {
		if len(right[s]) > 0 {
			texts = append(texts, s)
		}
	}
	slices.SortFunc(texts, func(x, y string) int { return cmp.Or(cmp.Compare(cost(x), cost(y)), cmp.Compare(x, y)) })
	total := 0
	for _, s := range texts {
		if total += cost(s); total > maxPairs {
			delete(right, s)
		}
	}
	var out []pair
	for i, s := range a {
		for _, j := range right[s] {
			out = append(out, pair{i, j})
		}
	}
	return out
}

// longest finds the longest run of pairs that grows on both sides, in n log n (Hunt and Szymanski).
func longest(all []pair) []pair {
	type link struct {
		pair
		before int
	}
	links := make([]link, 0, len(all))
	var ends []int // of the runs of each length, the link with the smallest b
	for _, p := range all {
		n, _ := slices.BinarySearchFunc(ends, p.b, func(i, b int) int { return cmp.Compare(links[i].b, b) })
		before := -1
		if n > 0 {
			before = ends[n-1]
		}
		links = append(links, link{p, before})
		if n == len(ends) {
			ends = append(ends, len(links)-1)
		} else {
			ends[n] = len(links) - 1
		}
	}
	if len(ends) == 0 {
		return nil
	}
	var out []pair
	for i := ends[len(ends)-1]; i >= 0; i = links[i].before {
		out = append(out, links[i].pair)
	}
	slices.Reverse(out)
	return out
}
