package objects

import (
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
)

// Objects that Add received may stay in memory, because most of them are read soon and would be unpacked again.
// maxRecent is the largest size of all objects in memory, over all folders of the process. maxRecentObject is the
// largest size of one such object.
const (
	maxRecent       = 32 << 20
	maxRecentObject = 1 << 20
)

// recentBytes is the size of all recent objects that are in memory, in bytes.
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

// recentObjects are objects that a folder received. The zero value is empty.
type recentObjects struct {
	byHash map[plumbing.Hash]recentObject
	held   int64 // the share of recentBytes that these objects use
}

// hold reports whether an object may stay in memory until drop.
func (r *recentObjects) hold(bytes int64) bool {
	const entry = 256 // about the bytes that the map needs for each object
	if bytes > maxRecentObject {
		return false
	}
	bytes += entry
	if recentBytes.Add(bytes) > maxRecent {
		recentBytes.Add(-bytes)
		return false
	}
	r.held += bytes
	return true
}

// add keeps the objects of a pack that are in memory.
func (r *recentObjects) add(entries []entry) {
	if r.byHash == nil {
		r.byHash = map[plumbing.Hash]recentObject{}
	}
	for _, e := range entries {
		switch {
		case !e.known || e.content == nil:
		case e.kind.IsDelta():
			r.byHash[e.hash] = recentObject{e.made, e.content}
		default:
			r.byHash[e.hash] = recentObject{e.kind, e.content}
		}
	}
}

func (r *recentObjects) drop() {
	recentBytes.Add(-r.held)
	*r = recentObjects{}
}
