// Package artifact knows what registries answer: manifests of one file, challenges and tokens. It also knows the files
// in which nodes and people keep credentials.
//
// In: texts of registries, files of credentials. Out: the layer of an artifact, the address of a token, the credentials
// for an artifact. Never: a connection, a secret in an error.
package artifact
