// Package datadir is the one folder that keeps everything of a local control
// plane: where each thing lies in it, and who may use it now.
//
// In: the path a person gave.
// Out: absolute paths, and a lock that a second process cannot take.
// Never: reads or writes the content of what lies there.
package datadir
