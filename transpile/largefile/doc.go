// Package largefile moves files of a document that are too large for an object to the content store, and refuses
// addresses of the content store that a document writes itself.
//
// In: a config, and its files in the content store. Out: the config that fits, findings. Never: I/O, the contents of a
// file.
package largefile
