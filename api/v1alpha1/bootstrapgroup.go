package v1alpha1

import "strings"

// BootstrapGroup is the group of every bootstrap token that the server creates for a new machine.
const BootstrapGroup = "system:bootstrappers:bunsen"

// poolGroupPrefix begins the group that names the pool, and possibly the node, for which the server admitted the
// machine.
const poolGroupPrefix = BootstrapGroup + ":for:"

// longestBootstrapGroup is the maximum length of such a group's name in Kubernetes.
const longestBootstrapGroup = len("system:bootstrappers:") + 256

// PoolGroup returns the group of a bootstrap token that records for which pool the server admitted a machine. It also
// names the node unless that is empty. A colon replaces each dot, because such a group cannot have dots. It returns an
// empty string if the names are too long.
func PoolGroup(pool, node string) string {
	group := poolGroupPrefix + strings.ReplaceAll(pool, ".", ":")
	if node != "" {
		group += "::" + strings.ReplaceAll(node, ".", ":")
	}
	if len(group) > longestBootstrapGroup {
		return ""
	}
	return group
}

// ParsePoolGroup returns the pool and the node of a group that PoolGroup returned. For other groups, ok is false.
func ParsePoolGroup(group string) (pool, node string, ok bool) {
	rest, ok := strings.CutPrefix(group, poolGroupPrefix)
	pool, node, _ = strings.Cut(rest, "::")
	return strings.ReplaceAll(pool, ":", "."), strings.ReplaceAll(node, ":", "."), ok && pool != ""
}
