package install

import (
	"fmt"

	"github.com/Masterminds/semver/v3"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// CheckVersions returns the programs whose version differs from that of the leading controller. Programs of two
// adjacent minor versions work together; a larger difference is fatal. Versions that are not semantic versions are only
// reported.
func CheckVersions(cli string, s v1alpha1.ClusterStatus) []Problem {
	var all []Problem
	if s.Version == "" {
		return nil
	}
	for _, v := range s.Versions {
		if v.Version == s.Version {
			continue
		}
		all = append(all, Problem{
			!areCompatible(v.Version, s.Version), fmt.Sprintf("%d %s: version %s, and the controller has version %s",
				v.Count, v.Component, v.Version, s.Version),
			"finish the upgrade: docs/upgrading.md",
		})
	}
	if cli != s.Version && !areCompatible(cli, s.Version) {
		all = append(all, Problem{false, fmt.Sprintf("this bunsen has version %s, and the controller has version %s",
			cli, s.Version), "use a bunsen of the controller's version"})
	}
	return all
}

// areCompatible reports whether two versions have the same major version and adjacent minor versions, or are unknown.
func areCompatible(a, b string) bool {
	va, err := semver.NewVersion(a)
	if err != nil {
		return true
	}
	vb, err := semver.NewVersion(b)
	if err != nil {
		return true
	}
	return va.Major() == vb.Major() && max(va.Minor(), vb.Minor())-min(va.Minor(), vb.Minor()) <= 1
}
