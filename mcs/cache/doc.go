// Package cache keeps a few contents on a disk, for the next start: what was put there last, or nothing.
//
// In: contents by name. Out: the same, after any crash whole or as they were before. Never: half of a content, one that was
// damaged on the disk or that another's name was given, a file that others may read.
package cache
