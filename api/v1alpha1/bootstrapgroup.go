package v1alpha1

import "strings"

// BootstrapGroup is the group of every bootstrap token that the server creates for a new machine.
const BootstrapGroup = "system:bootstrappers:bunsen"

// poolGroupPrefix begins the group that says for which pool, and for which node if any, the server let the machine in.
const poolGroupPrefix = BootstrapGroup + ":for:"

// longestBootstrapGroup is what Kubernetes accepts as the name of such a group.
const longestBootstrapGroup = len("system:bootstrappers:") + 256

// PoolGroup returns the group of a bootstrap token that records for which pool the server let a machine in, and for which node
// if node is not empty. A colon stands for each dot, because such a group has no dots. It returns an empty string where the
// names are too long.
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

// ParsePoolGroup reads what PoolGroup returns; ok is false for any other group.
func ParsePoolGroup(group string) (pool, node string, ok bool) {
	rest, ok := strings.CutPrefix(group, poolGroupPrefix)
	pool, node, _ = strings.Cut(rest, "::")
	return strings.ReplaceAll(pool, ":", "."), strings.ReplaceAll(node, ":", "."), ok && pool != ""
}
