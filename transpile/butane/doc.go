// Package butane translates one Butane document to Ignition 3.5.0, and gives each part of the output its origin: a line
// of the document, or the local file or tree that the document includes. Butane's own packages validate and translate;
// this package chooses the version, checks local files before Butane reads them, and keeps the translation set that
// Butane's functions drop.
//
// In: a document with its origins, and the directory of its local files. Out: a config with origins, or findings at the
// repository's lines. Never: a symbolic link, a file outside the directory, compression (the compressed bytes would
// depend on the compiler).
package butane
