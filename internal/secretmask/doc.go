// Package secretmask has the contents that are secret: those whose path an owner marks, and a short list of credentials
// whose form is unmistakable.
//
// In: marks of owners, contents. Out: what people may see of a content, and the credentials in a text. Never: any I/O;
// a guess from the name of a file or of a key.
package secretmask
