package policy

import (
	"fmt"
	"path"
	"strconv"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// nestedOwners refuses a directory of one user below a directory of another user. The other user could exchange it for another
// directory, so no daemon opens a path through it. Two owners are compared where the config gives both by number or both by name, or
// gives the number of a name.
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
			other, is := owners[above]
			if is && own != other && own.byName == other.byName {
				all = append(all, place{path: at, kind: placeDir, of: KindDirectory, name: d.Path}.refuse(fmt.Sprintf(
					"the directory of user %s is below %s of user %s, who could exchange it for another one: give one of both to root, or both to one user", own.user, above, other.user)))
				break
			}
		}
	}
	return all
}

// dirOwner is a user other than root who owns a directory: a number, or a name whose number only the node knows.
type dirOwner struct {
	user   string
	byName bool
}

// ownerOf is the owner that a config gives; zero for root, and where it gives none. Numbers has the numbers of the users that the config makes.
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
