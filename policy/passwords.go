package policy

import (
	"maps"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// RefusePasswords names the changes of passwords. A daemon refuses them, while a rendered config may hold them: Ignition
// sets them on new machines, on a running one nobody does, and a password that was taken out of a config and still opens
// the node must not look like success.
func RefusePasswords(from, to []ign.PasswdUser) (refusals []Refusal) {
	hashes := func(users []ign.PasswdUser) map[string]string {
		of := map[string]string{}
		for _, u := range users {
			if u.PasswordHash != nil {
				of[u.Name] = *u.PasswordHash
			}
		}
		return of
	}
	was, is := hashes(from), hashes(to)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, had := was[name]
		if after, has := is[name]; had != has || before != after {
			refusals = append(refusals, Refusal{
				Field: "passwd.users " + name + " passwordHash",
				Why:   "passwords of running nodes are not changed yet, only new nodes get them: go back to the earlier value and use sshAuthorizedKeys, or replace the nodes with new ones",
			})
		}
	}
	return refusals
}
