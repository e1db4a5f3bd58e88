package host

import (
	"cmp"
	"path"
	"strings"
)

// Obstacle is what keeps systemd from enabling a unit. The zero value is none.
type Obstacle struct {
	Why ObstacleWhy
	// At is the file that is the cause: the mask, the drop-in, or the unit to which an alias leads; "" without one.
	At string
	// Shipped is true for a mask in /etc that the OS image has as the default of that path.
	Shipped bool
}

// ObstacleWhy is a kind of obstacle.
type ObstacleWhy string

// The obstacles.
const (
	// UnitMissing: the unit has no file.
	UnitMissing ObstacleWhy = "missing"
	// UnitMasked: the unit's file is a link to /dev/null, or empty.
	UnitMasked ObstacleWhy = "masked"
	// UnitStatic: neither the file nor a drop-in has an [Install] section.
	UnitStatic ObstacleWhy = "static"
	// UnitCleared: a drop-in clears the [Install] section of the file.
	UnitCleared ObstacleWhy = "cleared"
	// UnitAlias: the file is a link in the administrator's directory to a unit of another name.
	UnitAlias ObstacleWhy = "alias"
	// UnitTemplate: the unit is a template without a default instance.
	UnitTemplate ObstacleWhy = "template"
)

// obstacle returns what keeps systemd from enabling a unit with these files. The sections do not show an alias.
func (s Sections) obstacle(unit string) Obstacle {
	file := s.file(unit, UnitDirs)
	switch install := s.counting(unit, UnitDirs); {
	case file == "":
		return Obstacle{Why: UnitMissing}
	case isMask(s[file]):
		return Obstacle{UnitMasked, file, s[file] == ShippedMask}
	case install == "":
		if at := s.clearing(unit); at != "" {
			return Obstacle{Why: UnitCleared, At: at}
		}
		return Obstacle{Why: UnitStatic, At: file}
	case strings.Contains(unit, "@.") && !strings.Contains("\n"+install, "\nDefaultInstance="):
		return Obstacle{Why: UnitTemplate, At: file}
	}
	return Obstacle{}
}

// clearing returns the drop-in that clears the last line of a unit's [Install] section; "" if there is none.
func (s Sections) clearing(unit string) (at string) {
	lines := strings.Split(s[s.file(unit, UnitDirs)], "\n")
	had := counting(lines) != ""
	for _, p := range s.dropins(unit, UnitDirs) {
		lines = append(lines, strings.Split(s[p], "\n")...)
		has := counting(lines) != ""
		if had && !has {
			at = p
		}
		had = has
	}
	return at
}

// IsLocal reports whether a user or a program of the machine made the obstacle, and not its image or the unit itself.
// Whoever links a unit to another one wants that one.
func (o Obstacle) IsLocal() bool {
	return (o.Why == UnitMasked || o.Why == UnitCleared) && !o.Shipped &&
		(below(o.At, UnitDir) || below(o.At, runtimeUnitDir))
}

func below(p, dir string) bool { return strings.HasPrefix(p, dir+"/") }

// Problem says what the obstacle is, as the end of a sentence that begins with the unit.
func (o Obstacle) Problem() string {
	switch o.Why {
	case UnitMissing:
		return "does not exist on this machine"
	case UnitMasked:
		switch {
		case below(o.At, UnitDir) && !o.Shipped:
			return "is masked by hand with " + o.At
		case below(o.At, runtimeUnitDir):
			return "is masked by hand until the next boot with " + o.At
		}
		return "is masked by the image with " + o.At
	case UnitStatic:
		return "has no [Install] section on this machine"
	case UnitCleared:
		return "has no [Install] section any more, because the drop-in " + o.At + " clears it"
	case UnitAlias:
		return "is a link on this machine that leads to " + o.At
	case UnitTemplate:
		return "is a template without a default instance"
	}
	return ""
}

// Advice says how a user makes it possible to enable the unit.
func (o Obstacle) Advice(unit string) string {
	switch o.Why {
	case UnitMissing:
		return "correct its name, or add its contents"
	case UnitMasked:
		if below(o.At, UnitDir) {
			return o.unmask() + ", or set mask: false"
		}
		return cmp.Or(o.unmask(), "add its contents, or take enabled: true out")
	case UnitStatic:
		return "add a drop-in with [Install], or take enabled: true out if another unit starts it"
	case UnitCleared:
		return "remove the drop-in, or add one with [Install] whose name sorts later"
	case UnitAlias:
		return "enable " + path.Base(o.At) + " instead, or remove the link"
	case UnitTemplate:
		instance := strings.Replace(unit, "@.", "@INSTANCE.", 1)
		return "enable an instance such as " + instance + ", or set DefaultInstance"
	}
	return ""
}

// unmask returns the command that removes a mask; "" for a mask of the image.
func (o Obstacle) unmask() string {
	switch {
	case below(o.At, UnitDir):
		return "systemctl unmask " + shellName(path.Base(o.At)) + " on the node"
	case below(o.At, runtimeUnitDir):
		return "systemctl unmask --runtime " + shellName(path.Base(o.At)) + " on the node"
	}
	return ""
}

// shellName returns the name or path of a unit for a command line. A unit's name may have a backslash.
func shellName(unit string) string {
	if strings.Contains(unit, `\`) {
		return "'" + unit + "'"
	}
	return unit
}

// IsMask reports whether an entry at the path of a unit file masks the unit.
func IsMask(at string, e Entry) bool {
	return e.Kind == Link && LinkTarget(at, e.Target) == "/dev/null" ||
		e.Kind == File && e.Digest == DigestOf(nil)
}
