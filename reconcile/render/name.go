package render

import (
	"crypto/md5" //nolint:gosec // a fingerprint that other programs compute the same way, not a defence
	"encoding/hex"
	"fmt"

	"github.com/ghodss/yaml"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// salt goes before the content in the hash of a name. It is a constant of interoperability: the machine-config-operator
// has it in pkg/controller/render/hash.go, and names agree only with the very same bytes.
var salt = [80]byte{
	16, 124, 206, 228, 139, 56, 175, 175, 79, 229, 134, 118, 157, 154, 211, 110, 25, 93, 47, 253,
	172, 106, 37, 7, 174, 13, 160, 185, 110, 17, 87, 52, 219, 131, 12, 206, 218, 141, 116, 135,
	188, 181, 192, 151, 233, 62, 126, 165, 64, 83, 179, 119, 15, 168, 208, 197, 146, 107, 58, 227,
	133, 188, 238, 26, 33, 26, 235, 202, 32, 173, 31, 234, 41, 144, 148, 79, 6, 206, 23, 22,
}

// Name returns the name of a rendered config: rendered-<pool>-<hash of the spec>. It depends on nothing but the content,
// so that the same content asked for by another commit, or by the original, has the same name. The spec must be in
// canonical form.
func Name(pool string, spec mcfgv1.MachineConfigSpec) (string, error) {
	text, err := yaml.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("naming the rendered config of pool %s: %w", pool, err)
	}
	return nameOf(pool, [][]byte{text}), nil
}

// nameOf takes the hashed text in pieces.
func nameOf(pool string, text [][]byte) string {
	h := md5.New() //nolint:gosec // see the import
	h.Write(salt[:])
	for _, piece := range text {
		h.Write(piece)
	}
	return "rendered-" + pool + "-" + hex.EncodeToString(h.Sum(nil))
}
