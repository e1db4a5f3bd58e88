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

// CheckSystem returns the problems of kernelType and extensions.
func CheckSystem(kernelType string, names []string) (bad Problems) {
	if !slices.Contains(kernelTypes, kernelType) {
		bad = append(bad, Problem{Path: ofSpec("kernelType").path, Err: fmt.Errorf("kernelType %q is invalid: use "+
			"default, realtime or 64k-pages", kernelType)})
	}
	for i, e := range names {
		if !slices.Contains(extensions, e) {
			at := ofSpec("extensions").at(i)
			bad = append(bad, Problem{Path: at.path, Place: at.place, Err: fmt.Errorf("%q is an invalid extension: "+
				"use any of %s", e, strings.Join(extensions, ", "))})
		}
	}
	if slices.Contains(names, "kernel-devel") && kernelType != "" && kernelType != "default" {
		bad = append(bad, Problem{Path: "$", Err: fmt.Errorf("extension kernel-devel needs the default kernel, not "+
			"kernelType %s: remove one of them", kernelType)})
	}
	return bad
}
