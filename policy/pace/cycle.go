package pace

import (
	"maps"
	"slices"
)

// Cycle finds pools that wait for each other: the pools of one cycle, in the order in which each waits for the next; nil:
// there is none. The argument has for each pool the pools that it waits for. Of several cycles it is always the same one.
func Cycle(after map[string][]string) []string {
	done := map[string]bool{}
	for _, pool := range slices.Sorted(maps.Keys(after)) {
		if cycle := follow(after, done, []string{pool}); cycle != nil {
			return cycle
		}
	}
	return nil
}

// follow goes from the last pool of a path on; done are pools from which no cycle can be reached.
func follow(after map[string][]string, done map[string]bool, path []string) []string {
	pool := path[len(path)-1]
	if at := slices.Index(path, pool); at < len(path)-1 {
		return slices.Clone(path[at : len(path)-1])
	}
	if done[pool] {
		return nil
	}
	for _, next := range slices.Sorted(slices.Values(after[pool])) {
		if cycle := follow(after, done, append(path, next)); cycle != nil {
			return cycle
		}
	}
	done[pool] = true
	return nil
}
