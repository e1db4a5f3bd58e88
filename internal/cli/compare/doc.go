// Package compare renders both sides of a comparison: directories, revisions, or what the nodes of a cluster run.
//
// In: arguments and flags of diff and comment. Out: a comparison of package review. Never: an assessment of a change;
// package review does that.
package compare
