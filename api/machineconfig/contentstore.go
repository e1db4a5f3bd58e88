package machineconfig

import (
	"errors"
	"strings"
)

// MaxContent is the largest file in bytes.
const MaxContent = 256 << 20

// ErrNoContentStore says what to do with a file that is too large for a MachineConfig.
var ErrNoContentStore = errors.New("keep it in an OCI registry: set --content-registry on the controller and the " +
	"servers, " +
	"and --large-files on the commands of bunsen. Or push it to a registry or a web server yourself, name its " +
	"address as `source`, and run `bunsen hash`")

// ContentTag returns the tag of a file in the registry of the content store. A tag has at most 128 characters, so it
// has half of the hash. Readers verify all of it.
func ContentTag(hash string) string {
	const half = 64
	return "content-" + strings.TrimPrefix(hash, "sha512-")[:half]
}
