package review

import (
	"fmt"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// checkedOnNode names what no repository knows and each node checks: whether a user or group that a config gives a number has another
// number there already. A node that has refuses the config, for the files of the account would belong to nobody.
func checkedOnNode(from, to machineconfig.Config) (out []string) {
	type account struct{ kind, name string }
	known := map[account]bool{}
	for _, u := range from.Ignition.Passwd.Users {
		known[account{"user", u.Name}] = u.UID != nil
	}
	for _, g := range from.Ignition.Passwd.Groups {
		known[account{"group", g.Name}] = g.Gid != nil
	}
	check := func(kind, name, number string, value *int, exists *bool) {
		if value == nil || exists != nil && !*exists || known[account{kind, name}] {
			return // a number that changes is refused without asking a node
		}
		out = append(out, fmt.Sprintf("%s %s: %s %d is checked on each node, because the %s of an existing %s cannot change: a node that has the %[1]s with another %[3]s refuses the config", kind, name, number, *value, number, kind))
	}
	for _, u := range to.Ignition.Passwd.Users {
		check("user", u.Name, "uid", u.UID, u.ShouldExist)
	}
	for _, g := range to.Ignition.Passwd.Groups {
		check("group", g.Name, "gid", g.Gid, g.ShouldExist)
	}
	return out
}
