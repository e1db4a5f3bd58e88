package source

// Evidence is what a check of signatures reads, before any file of the commit is fetched.
type Evidence struct {
	// Ref is the full name of the ref that the spec picked, such as `refs/tags/v1.4.2`. It is empty for a pinned commit.
	Ref string
	// Applied is the hash of the commit with which Commit is compared. It is empty if none is applied, or if a user accepted
	// Commit without a comparison.
	Applied string
	// Commit is the object of the commit to apply, as git stores it. Signatures cover these bytes.
	Commit []byte
	// Tag is the object of the annotated tag that the spec names. It is nil for a branch, a pinned commit and a tag without an
	// object of its own.
	Tag []byte
	// Added lists the objects of the commits that Commit adds to the applied commit, newest first. The first one is Commit. If
	// Descent is Unknown, it has Commit only.
	Added [][]byte
	// Descent is the relation of Commit to the applied commit. It is Unknown if none is applied.
	Descent Descent
}
