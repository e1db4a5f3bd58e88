package source

import "github.com/Masterminds/semver/v3"

// CompareVersions compares two tags as semantic versions: the result is negative if a is lower, and positive if it is
// higher. ok is false if one of the tags is no version.
func CompareVersions(a, b string) (order int, ok bool) {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	if errX != nil || errY != nil {
		return 0, false
	}
	return x.Compare(y), true
}
