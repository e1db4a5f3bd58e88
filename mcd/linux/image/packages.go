package image

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// kernels are the packages of each kernel type. The image contains the packages of the first type; the packages of the
// other types replace them.
var kernels = map[string][]string{
	"default":   {"kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra"},
	"realtime":  {"kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-extra"},
	"64k-pages": {"kernel-64k-core", "kernel-64k-modules", "kernel-64k-modules-core", "kernel-64k-modules-extra"},
}

// kernelPackages returns the packages of a kernel type in a release. Release 8 has no package of core modules.
func kernelPackages(kind, major string) []string {
	return slices.DeleteFunc(slices.Clone(kernels[kind]), func(p string) bool {
		return major == "8" && p == "kernel-modules-core"
	})
}

// kernelTypeOf returns the kernel type of a deployment from its requested packages.
func kernelTypeOf(packages []string) string {
	for kind, begins := range map[string]string{"realtime": "kernel-rt-", "64k-pages": "kernel-64k-"} {
		if slices.ContainsFunc(packages, func(p string) bool { return strings.HasPrefix(p, begins) }) {
			return kind
		}
	}
	return "default"
}

// extensions are the names that configs may use, with the packages of each.
var extensions = map[string][]string{
	"ipsec":                {"NetworkManager-libreswan", "libreswan"},
	"kerberos":             {"krb5-workstation", "libkadm5"},
	"kernel-devel":         {"kernel-devel", "kernel-headers"},
	"sandboxed-containers": {"kata-containers"},
	"sysstat":              {"sysstat"},
	"two-node-ha":          {"fence-agents-all", "pacemaker", "pcs"},
	"usbguard":             {"usbguard"},
	"wasm":                 {"crun-wasm"},
}

// extensionsOf returns the extensions whose packages are all requested.
func extensionsOf(packages []string) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(extensions)) {
		if !slices.ContainsFunc(extensions[name], func(p string) bool { return !slices.Contains(packages, p) }) {
			names = append(names, name)
		}
	}
	return host.JoinArgs(names)
}

// extensionChange returns the packages to install and to uninstall, so that exactly the wanted extensions are
// requested. Packages that belong to no extension stay.
func extensionChange(packages []string, wanted string) (install, uninstall []string, err error) {
	need := map[string]bool{}
	for _, name := range host.SplitArgs(wanted) {
		parts, known := extensions[name]
		if !known {
			return nil, nil, fmt.Errorf("%q is no extension: there are %s", name,
				strings.Join(slices.Sorted(maps.Keys(extensions)), ", "))
		}
		for _, p := range parts {
			need[p] = true
			if !slices.Contains(packages, p) {
				install = append(install, p)
			}
		}
	}
	for _, name := range host.SplitArgs(extensionsOf(packages)) {
		for _, p := range extensions[name] {
			if !need[p] && !slices.Contains(uninstall, p) {
				uninstall = append(uninstall, p)
			}
		}
	}
	return install, uninstall, nil
}

// isManaged reports whether a package belongs to a kernel type or an extension.
func isManaged(p string) bool {
	for _, table := range []map[string][]string{kernels, extensions} {
		for _, parts := range table {
			if slices.Contains(parts, p) {
				return true
			}
		}
	}
	return false
}
