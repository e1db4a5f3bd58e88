// Package nodepath has the paths on a node that belong to its daemon, which no config may contain, and says what
// becomes of files in other places.
//
// In: nothing. Out: paths. Never: I/O.
package nodepath
