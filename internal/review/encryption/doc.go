// Package encryption finds files of a repository that should be encrypted, or are encrypted for other recipients than
// their creation rule says.
//
// In:    the files of a tree, and the fragments that they become
// Out:   entries of a report, without any value
// Never: decrypts, or writes files
package encryption
