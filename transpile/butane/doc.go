// Package butane translates one Butane document to Ignition 3.5.0 and says of each part of the output which line of
// the repository it comes from: of the document, or of the local file or tree that the document takes in.
//
// In: a document with its origins, and the directory of its local files. Out: a config with origins, or findings at the
// repository's lines. Never: a symbolic link, a file outside the directory, compression (its bytes would depend on the
// compiler).
package butane
