// Package objects keeps fetched objects of git in a directory, so that a fetch receives only new objects.
//
// A directory has the layout of a bare repository without refs: each fetch adds one pack with its index. The package
// measures the unpacked size of a pack before it unpacks anything, and unpacks one object at a time.
//
// In: packs of a server. Out: objects by their hash. Never: an object in memory that is larger than 16 MiB, a pack
// without its index, an object of a pack that was received in part.
package objects
