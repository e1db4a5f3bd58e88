package source

// Evidence is what a check of signatures reads, before any file of the commit is fetched.
type Evidence struct {
	// Ref is the full name of the ref that the spec picked, such as `refs/tags/v1.4.2`. Ref is empty for a pinned
	// commit.
	Ref string
	// Applied is the hash of the commit with which Commit is compared. Applied is empty if no commit is applied, or if
	// a user accepted Commit without a comparison.
	Applied string
	// Commit is the object of the commit to apply, as git stores it. The signature of the commit covers these bytes.
	Commit []byte
	// Tag is the object of the annotated tag that the spec names. Tag is nil for a branch, a pinned commit and a tag
	// without an object of its own.
	Tag []byte
	// Added lists the objects of the commits that Commit adds to the applied commit, newest first. The first object is
	// Commit. If Descent is Unknown, Added has only Commit.
	Added [][]byte
	// Descent is the relation of Commit to the applied commit. Descent is Unknown if no commit is applied.
	Descent Descent
}
