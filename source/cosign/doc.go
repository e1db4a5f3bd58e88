// Package cosign checks and makes signatures of OCI artifacts, in the form that cosign writes with a key.
//
// In: public keys, a signed statement, the digest of an artifact; a private key. Out: the key that signed the artifact;
// a signed statement. Never: any I/O; a part of a private key in an error.
package cosign
