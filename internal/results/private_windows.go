package results

import "io/fs"

const noFollow = 0

// isPrivate is true: a mode says nothing about others on Windows, where the cache of a user is in the user's profile.
func isPrivate(fs.FileInfo) bool { return true }
