package transpile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// section maps each list of Ignition to the section that contains it.
var section = map[string]string{
	"files": "storage", "directories": "storage", "links": "storage", "filesystems": "storage", "disks": "storage",
	"luks": "storage", "raid": "storage", "units": "systemd", "users": "passwd", "groups": "passwd",
}

var (
	listItem = regexp.MustCompile(`^([a-z]+)\[(\d+)\]`)
	subItem  = regexp.MustCompile(`^[^:]*? (dropins|append|sshAuthorizedKeys)\[(\d+)\]`)
	specItem = regexp.MustCompile(`^(kernelArguments|extensions)\[(\d+)\]`)
	specPart = regexp.MustCompile(`^(osImageURL|baseOSExtensionsContainerImage|kernelType)[: ]`)
	modeOf   = regexp.MustCompile(`: mode | mode[: ]`)
	// headItem matches a resource in the `ignition` section.
	headItem = regexp.MustCompile(`^(ignition\.[A-Za-z.]+)(?:\[(\d+)\])?: `)
	// partOf matches the name of a resource that is a part of an item, such as the contents of a file.
	partOf = regexp.MustCompile(`^[^:]* (contents|keyFile|append\[\d+\])(?: source)?: `)
)

// PlacedOutput returns the path in a fragment that a problem of package machineconfig is about. The text of such a
// problem begins with the place in the config: `units[3] x.service dropins[0]: …`.
func PlacedOutput(problem string) string {
	if m := specItem.FindStringSubmatch(problem); m != nil {
		return "spec." + m[1] + "." + m[2]
	}
	if m := specPart.FindStringSubmatch(problem); m != nil {
		return "spec." + m[1]
	}
	if m := headItem.FindStringSubmatch(problem); m != nil {
		return resource(strings.TrimRight("$."+m[1]+"."+m[2], "."), problem)
	}
	m := listItem.FindStringSubmatch(problem)
	if m == nil || section[m[1]] == "" {
		return "$"
	}
	at := strings.Join([]string{"$", section[m[1]], m[1], m[2]}, ".")
	if s := partOf.FindStringSubmatch(problem); s != nil {
		part, number, _ := strings.Cut(strings.TrimSuffix(s[1], "]"), "[")
		return resource(strings.TrimRight(at+"."+part+"."+number, "."), problem)
	}
	if s := subItem.FindStringSubmatch(problem); s != nil {
		return at + "." + s[1] + "." + s[2]
	}
	if m[1] == "files" && modeOf.MatchString(problem) {
		return at + ".mode"
	}
	return at
}

// resource returns the path of the part of a resource that a problem is about: the hash, or otherwise the source.
func resource(at, problem string) string {
	if strings.Contains(problem, ": verification hash ") {
		return at + ".verification.hash"
	}
	return at + ".source"
}

// PlacedItem returns the path of an item in a fragment. For an item of a merged config, Item returns the path of the
// reference to the merged config.
func PlacedItem(c machineconfig.Config, kind disruption.ChangeKind, name string) string {
	lists := map[disruption.ChangeKind]struct {
		path string
		keys []string
	}{
		disruption.KindFile:      {"$.storage.files.", keysOf(c.Ignition.Storage.Files)},
		disruption.KindDirectory: {"$.storage.directories.", keysOf(c.Ignition.Storage.Directories)},
		disruption.KindLink:      {"$.storage.links.", keysOf(c.Ignition.Storage.Links)},
		disruption.KindUnit:      {"$.systemd.units.", keysOf(c.Ignition.Systemd.Units)},
		disruption.KindUser:      {"$.passwd.users.", keysOf(c.Ignition.Passwd.Users)},
		disruption.KindGroup:     {"$.passwd.groups.", keysOf(c.Ignition.Passwd.Groups)},
	}
	list := lists[kind]
	if i := slices.Index(list.keys, name); i >= 0 {
		return list.path + strconv.Itoa(i)
	}
	return "$.ignition.config"
}

func keysOf[T interface{ Key() string }](list []T) []string {
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = list[i].Key()
	}
	return keys
}
