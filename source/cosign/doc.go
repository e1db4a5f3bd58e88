// Package cosign checks signatures of OCI artifacts, in the form that cosign writes with a key.
//
// In: public keys, a signed statement, the digest of an artifact. Out: the key that signed it. Never: any I/O.
package cosign
