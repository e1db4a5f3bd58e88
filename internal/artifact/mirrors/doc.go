// Package mirrors knows the mirrors of registries in the files registries.conf and registries.conf.d/*.conf, version 2,
// as container tools read them.
//
// In: texts of files, artifacts. Out: the places of an artifact in the order in which a reader tries them. Never: I/O.
package mirrors
