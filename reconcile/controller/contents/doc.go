// Package contents writes large files of repositories to the content store: first the chunks, then the Content that
// names them. It also deletes what nothing names any more.
//
// A deletion must not remove an object on which a writer relies. So a writer renews an object that it finds: it writes
// the time into an annotation. A deletion needs an object that no writer renewed for an hour, and names the version of
// the object that it read. The API server refuses the deletion if a writer renewed the object since then.
//
// With a Registry, the bytes of new files are in an OCI registry in place of chunks. Its artifact is written before the
// Content, and deleted before it. One lock keeps a writer of this process from relying on an artifact that is being
// deleted. A controller that was the leader before may still delete one; the next sweep finds that, and writes the file
// again.
//
// In: files and their hashes. Out: Content and ContentChunk. Never: a MachineConfig; a whole file in memory.
package contents
