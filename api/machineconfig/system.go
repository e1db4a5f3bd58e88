package machineconfig

import (
	"fmt"
	"slices"
	"strings"
)

// The valid values of kernelType and of extensions.
var (
	kernelTypes = []string{"", "default", "realtime", "64k-pages"}
	extensions  = []string{
		"ipsec", "kerberos", "kernel-devel", "sandboxed-containers", "sysstat", "two-node-ha",
		"usbguard",
	}
)

// CheckSystem returns the errors in kernelType and extensions, each with its position.
func CheckSystem(kernelType string, names []string) (bad []error) {
	if !slices.Contains(kernelTypes, kernelType) {
		bad = append(bad, fmt.Errorf("kernelType %q is invalid: use default, realtime or 64k-pages", kernelType))
	}
	for i, e := range names {
		if !slices.Contains(extensions, e) {
			bad = append(bad, fmt.Errorf("extensions[%d]: %q is an invalid extension: use any of %s", i, e,
				strings.Join(extensions, ", ")))
		}
	}
	if slices.Contains(names, "kernel-devel") && kernelType != "" && kernelType != "default" {
		bad = append(bad, fmt.Errorf("extension kernel-devel needs the default kernel, not kernelType %s: remove one "+
			"of them", kernelType))
	}
	return bad
}
