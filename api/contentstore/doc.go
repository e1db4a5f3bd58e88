// Package contentstore reads and writes the objects of the content store: large files of repositories as a Content and
// ContentChunks.
//
// In: bytes, objects. Out: objects, bytes that their name has verified. Never: I/O, the clock; the contents of a file
// in an error.
package contentstore
