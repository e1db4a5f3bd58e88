package objects

import (
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
)

// Objects that Add received may stay in memory, because most of them are read soon and would be unpacked again. maxRecent is how many
// bytes they may have in all folders of the process, and maxRecentObject in one object.
const (
	maxRecent       = 32 << 20
	maxRecentObject = 1 << 20
)

// recentBytes is how many bytes of them are in memory.
var recentBytes atomic.Int64

// recentObject is an object in memory.
type recentObject struct {
	kind plumbing.ObjectType
	data []byte
}

func (c recentObject) object() plumbing.EncodedObject {
	o := &plumbing.MemoryObject{}
	o.SetType(c.kind)
	_, _ = o.Write(c.data) // a write to memory never fails
	return o
}

// hold reports whether an object may stay in memory until Close.
func (f *Folder) hold(bytes int64) bool {
	if bytes > maxRecentObject {
		return false
	}
	if recentBytes.Add(bytes) > maxRecent {
		recentBytes.Add(-bytes)
		return false
	}
	f.held += bytes
	return true
}

// remember keeps the objects of a pack that are in memory.
func (f *Folder) remember(entries []entry) {
	if f.recent == nil {
		f.recent = map[plumbing.Hash]recentObject{}
	}
	for _, e := range entries {
		switch {
		case !e.known || e.content == nil:
		case e.kind.IsDelta():
			f.recent[e.hash] = recentObject{e.made, e.content}
		default:
			f.recent[e.hash] = recentObject{e.kind, e.content}
		}
	}
}

func (f *Folder) dropRecent() {
	recentBytes.Add(-f.held)
	f.recent, f.held = nil, 0
}
