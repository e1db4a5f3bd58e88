// Package verify checks whether a commit is signed by an allowed key, OpenPGP or SSH.
//
// A signature covers the commit object, and the object names its tree by hash, so the commit must be read strictly. The
// package refuses a commit that two programs could read differently (a second tree, headers out of order), signed or
// not. A signature of a tag is not enough: the commit itself must be signed.
//
// Keys must be valid at the time of the check. The time of the commit does not count, because the owner of an expired
// key could write an earlier time into it. A verified commit stays in the store until the allowed keys change.
//
// In: a raw commit object, the data of a Secret, the time. Out: the signer's name, or a Stalled fault that says what to
// do. Never: key material in an error; a fetch of keys; a signature.
package verify
