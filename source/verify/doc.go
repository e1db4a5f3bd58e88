// Package verify says whether a commit is signed by an allowed key, OpenPGP or SSH.
//
// A signature is over the commit object, and the object names its tree by hash; so the commit must be read as strictly as
// it is signed. One that two programs could read differently (a second tree, headers out of order) is refused, signed or
// not. Signatures of tags do not count: the commit itself must bear one.
//
// Keys are judged at the moment of the look, not at the time that the commit claims, which whoever has a retired key can
// set back. A commit that passed once stays in the store, however, until other keys are asked for.
//
// In: a raw commit object, the data of a Secret, the time. Out: the signer's name, or a Stalled fault that says what to
// do. Never: key material in an error; a fetch of keys; the signing of anything.
package verify
