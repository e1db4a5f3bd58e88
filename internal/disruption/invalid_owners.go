package disruption

import (
	"fmt"
	"path"
	"strconv"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// nestedOwners refuses a directory of one user below a directory of another user, because the other user could replace
// the directory. nestedOwners compares two owners if the config gives both by number or both by name, or gives the
// number of a name.
func nestedOwners(c ign.Config) (all []Refusal) {
	numbers := map[string]string{}
	for _, u := range c.Passwd.Users {
		if exists(u.ShouldExist) && u.UID != nil {
			numbers[u.Name] = strconv.Itoa(*u.UID)
		}
	}
	owners := map[string]dirOwner{}
	for _, d := range c.Storage.Directories {
		if o := ownerOf(d.User, numbers); o != (dirOwner{}) {
			owners[path.Clean(d.Path)] = o
		}
	}
	for _, d := range c.Storage.Directories {
		at := path.Clean(d.Path)
		own, owned := owners[at]
		for above := path.Dir(at); owned && above != "/" && above != "."; above = path.Dir(above) {
			other, ok := owners[above]
			if ok && own != other && own.byName == other.byName {
				all = append(all, managedPath{path: at, kind: pathDir, of: KindDirectory, name: d.Path}.refuse(
					fmt.Sprintf(
						"user %s owns this directory, and user %[3]s owns %[2]s above it and could replace it: give "+
							"one of the two directories to root, or both to one user", own.user, above, other.user)))
				break
			}
		}
	}
	return all
}

// dirOwner is a user other than root who owns a directory: a number, or a name if only the node knows the number.
type dirOwner struct {
	user   string
	byName bool
}

// ownerOf returns the owner in a config; zero for root and for no owner. The parameter numbers has the uids of the
// config's users.
func ownerOf(u ign.NodeUser, numbers map[string]string) dirOwner {
	switch {
	case u.ID != nil && *u.ID != 0:
		return dirOwner{user: strconv.Itoa(*u.ID)}
	case u.ID != nil || u.Name == nil || *u.Name == "" || *u.Name == "root":
		return dirOwner{}
	}
	if number, known := numbers[*u.Name]; known {
		return dirOwner{user: number}
	}
	return dirOwner{user: *u.Name, byName: true}
}
