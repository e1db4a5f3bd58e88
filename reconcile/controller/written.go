package controller

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// written remembers what this process wrote and what its informers do not show yet: a decision on facts that are older
// than our own last write could break a budget. It is guarded by the lock of the fleet that it belongs to.
type written struct {
	pending map[objectKey]write
	// open are the keys by the pool whose decisions have to wait for them.
	open map[string]map[objectKey]bool
}

// objectKey names a Node or, where pool is true, a MachineConfigPool.
type objectKey struct {
	pool bool
	name string
}

// write is one that no informer has shown yet.
type write struct {
	// pool whose decisions wait for it.
	pool string
	// version that the write gave the object; where sure is false, the one before: nobody knows whether it was done.
	version string
	sure    bool
	// at is when it was written, or last asked about.
	at time.Time
}

// shownBy tells whether an object of that version is what the write left, or newer.
func (w write) shownBy(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, w.version)
	if err != nil { // no API server has such versions; another one is the best sign there is
		return version != w.version || w.sure
	}
	return order > 0 || order == 0 && w.sure
}

func newWritten() written {
	return written{pending: map[objectKey]write{}, open: map[string]map[objectKey]bool{}}
}

// put remembers a write, in the place of an earlier one to the same object.
func (w *written) put(key objectKey, what write) {
	w.drop(key)
	w.pending[key] = what
	if w.open[what.pool] == nil {
		w.open[what.pool] = map[objectKey]bool{}
	}
	w.open[what.pool][key] = true
}

// shown takes note of what an informer shows.
func (w *written) shown(key objectKey, version string) {
	if what, ok := w.pending[key]; ok && what.shownBy(version) {
		w.drop(key)
	}
}

// drop forgets an object, because it is shown or because it is gone.
func (w *written) drop(key objectKey) {
	what, ok := w.pending[key]
	if !ok {
		return
	}
	delete(w.pending, key)
	delete(w.open[what.pool], key)
	if len(w.open[what.pool]) == 0 {
		delete(w.open, what.pool)
	}
}

// since are the objects that the pools wait for since before a time, those that wait longest first, and not more than
// doubts.
func (w *written) since(before time.Time, pools []string) []objectKey {
	var out []objectKey
	for _, p := range pools {
		for key := range w.open[p] {
			if w.pending[key].at.Before(before) {
				out = append(out, key)
			}
		}
	}
	slices.SortFunc(out, func(a, b objectKey) int {
		return cmp.Or(w.pending[a].at.Compare(w.pending[b].at), strings.Compare(a.name, b.name))
	})
	return out[:min(len(out), doubts)]
}

// waits tells whether a decision about any of the pools has to wait.
func (w *written) waits(pools []string) bool {
	for _, p := range pools {
		if len(w.open[p]) > 0 {
			return true
		}
	}
	return false
}
