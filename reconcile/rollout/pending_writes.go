package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// pendingWrites has the writes of this process that its informers do not show yet. A decision on facts from before the
// last write could exceed a budget. The lock of the Fleet guards pendingWrites.
type pendingWrites struct {
	byObject map[objectKey]pendingWrite
	// byPool are the keys of the objects, by the pool whose decisions wait for them.
	byPool map[string]map[objectKey]bool
}

// objectKey names a Node or, if pool is true, a MachineConfigPool.
type objectKey struct {
	pool bool
	name string
}

// pendingWrite is a write that no informer has shown yet.
type pendingWrite struct {
	// pool is the pool whose decisions wait for the write.
	pool string
	// version is the resource version after the write. If sure is false, the answer was lost, and version is the
	// version before the write.
	version string
	sure    bool
	// at is when the controller wrote the object, or last checked the write.
	at time.Time
}

// shownBy reports whether an object with this version includes the write.
func (w pendingWrite) shownBy(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, w.version)
	if err != nil { // API servers have no versions that are not numbers; in tests, any other version counts as newer.
		return version != w.version || w.sure
	}
	return order > 0 || order == 0 && w.sure
}

func newPendingWrites() pendingWrites {
	return pendingWrites{byObject: map[objectKey]pendingWrite{}, byPool: map[string]map[objectKey]bool{}}
}

// add stores a write. add replaces an earlier write to the same object.
func (w *pendingWrites) add(key objectKey, what pendingWrite) {
	w.remove(key)
	w.byObject[key] = what
	if w.byPool[what.pool] == nil {
		w.byPool[what.pool] = map[objectKey]bool{}
	}
	w.byPool[what.pool][key] = true
}

// shown removes a write if an informer shows it.
func (w *pendingWrites) shown(key objectKey, version string) {
	if what, ok := w.byObject[key]; ok && what.shownBy(version) {
		w.remove(key)
	}
}

// remove removes the write to an object, because an informer shows it or the object is deleted.
func (w *pendingWrites) remove(key objectKey) {
	what, ok := w.byObject[key]
	if !ok {
		return
	}
	delete(w.byObject, key)
	delete(w.byPool[what.pool], key)
	if len(w.byPool[what.pool]) == 0 {
		delete(w.byPool, what.pool)
	}
}

// overdue returns the objects for whose writes the pools have waited since before a given time: at most
// maxOverdueReads, the oldest write first.
func (w *pendingWrites) overdue(before time.Time, pools []string) []objectKey {
	var out []objectKey
	for _, p := range pools {
		for key := range w.byPool[p] {
			if w.byObject[key].at.Before(before) {
				out = append(out, key)
			}
		}
	}
	slices.SortFunc(out, func(a, b objectKey) int {
		return cmp.Or(w.byObject[a].at.Compare(w.byObject[b].at), strings.Compare(a.name, b.name))
	})
	return out[:min(len(out), maxOverdueReads)]
}

// hasAny reports whether a decision about any of the pools has to wait.
func (w *pendingWrites) hasAny(pools []string) bool {
	for _, p := range pools {
		if len(w.byPool[p]) > 0 {
			return true
		}
	}
	return false
}
