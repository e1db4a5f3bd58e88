package schedule

import (
	"maps"
	"slices"
)

// Cycle returns the pools of one cycle, each of which waits for the next, or nil. The parameter maps each pool to those
// that it waits for. If there are several cycles, it is always the same one.
func Cycle(after map[string][]string) []string {
	done := map[string]bool{}
	for _, pool := range slices.Sorted(maps.Keys(after)) {
		if cycle := follow(after, done, []string{pool}); cycle != nil {
			return cycle
		}
	}
	return nil
}

// follow continues a path of waiting pools from its end. done has pools that lead to no cycle.
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
