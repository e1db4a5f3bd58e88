// Package verify checks whether an allowed OpenPGP or SSH key signed a commit, its tag, or every commit since the
// applied commit.
//
// A signature covers the commit object, and the object names its tree by hash. So the package must read the object
// strictly. The package refuses a commit or a tag that two programs could read differently (a second tree, headers out
// of order, two signatures), signed or not. The package accepts nothing that git verify-commit and git verify-tag
// refuse.
//
// Keys must be valid at the time of the check. The time of the commit alone does not count, because the owner of an
// expired key could write an earlier time into the commit. A verified commit stays in the store until the policy or its
// keys change.
//
// In: git objects, spec.verify, the data of a Secret, the time. Out: the signer's name, or a fault that says what to
// do. Never: key material in an error; a fetch of keys; a signature.
package verify
