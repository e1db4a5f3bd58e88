package nodepath

import (
	"fmt"
	"path"
	"strings"
)

// The maximum length of names and paths of a config. File systems allow 255 bytes in a name and 4095 in a path. The
// daemon stores the original of a path in its own directory, under the same name with a suffix.
const (
	maxName = 255 - len(".mcdnoorig")
	maxPath = 4095 - len(NoOrigDir) - len(".mcdnoorig")
)

// Reserved returns why a path cannot be in any config, or "". Either the daemon stores rollback data there, or a
// name in the path is too long for a backup.
func Reserved(p string) string {
	if p == Force {
		return "this file makes the daemon skip its checks, so a config must not contain it: remove it. If a node " +
			"needs the file, create it there manually"
	}
	if p == GrubArguments {
		return "the daemon writes the config's kernelArguments into this file: remove it from the config, and use " +
			"kernelArguments"
	}
	if p == PinnedImages {
		return "the daemon writes the images of the pool's PinnedImageSets into this file: remove it from the " +
			"config, and use a PinnedImageSet"
	}
	for _, own := range []string{
		Record, OrigDir, NoOrigDir, Accounts,
		Units, StateDir, Force, BootedArguments,
	} {
		if p == own || strings.HasPrefix(p, own+"/") {
			return own + " belongs to the daemon, which stores there what it needs for a rollback: remove this path " +
				"from the config"
		}
	}
	if len(p) > maxPath {
		return fmt.Sprintf("it has %d bytes, at most %d: shorten it", len(p), maxPath)
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxName {
			return fmt.Sprintf("a name in it has %d bytes, at most %d: shorten it", len(name), maxName)
		}
	}
	if base := path.Base(p); strings.HasPrefix(base, ".") && strings.HasSuffix(base, NewSuffix) {
		return "the daemon uses such names for files that it is writing: choose another name"
	}
	return ""
}
