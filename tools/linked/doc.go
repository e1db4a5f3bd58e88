// Package linked lists the modules that a binary links, with the files in them that state a licence.
//
// In: a directory of a Go module, packages of it, platforms. Out: modules, from the go command. Never: a module of
// go.mod that no package of the binary imports.
package linked
