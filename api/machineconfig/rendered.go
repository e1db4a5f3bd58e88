package machineconfig

import (
	"bytes"
	"crypto/md5" //nolint:gosec // a fingerprint that other programs compute the same way; see RenderedName
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// renderedSalt precedes the content in the hash of a name. The machine-config-operator has the same bytes in
// pkg/controller/render/hash.go, so the operator and Bunsen compute the same names.
var renderedSalt = [80]byte{
	16, 124, 206, 228, 139, 56, 175, 175, 79, 229, 134, 118, 157, 154, 211, 110, 25, 93, 47, 253,
	172, 106, 37, 7, 174, 13, 160, 185, 110, 17, 87, 52, 219, 131, 12, 206, 218, 141, 116, 135,
	188, 181, 192, 151, 233, 62, 126, 165, 64, 83, 179, 119, 15, 168, 208, 197, 146, 107, 58, 227,
	133, 188, 238, 26, 33, 26, 235, 202, 32, 173, 31, 234, 41, 144, 148, 79, 6, 206, 23, 22,
}

// RenderedName returns the name of a rendered config of a pool by its content, rendered-POOL-HASH. A node that has the
// name from the API server computes the name of a config from another server, and compares the names. The hash is MD5:
// no one can find another config for a given name, but an author of configs could create two configs with one name.
func RenderedName(pool string, spec mcfgv1.MachineConfigSpec) (string, error) {
	text, err := yaml.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("naming a rendered config of pool %s: %w", pool, err)
	}
	h := md5.New() //nolint:gosec // see the import
	h.Write(renderedSalt[:])
	h.Write(text)
	return "rendered-" + pool + "-" + hex.EncodeToString(h.Sum(nil)), nil
}

// TargetName returns the name of the config of a pool whose nodes have configs of their own, rendered-POOL-HASH. The
// name depends on the config of each node, so a change of one of them is a change of the pool's config. No node runs a
// config of this name.
func TargetName(nodes v1alpha1.NodeConfigs) string {
	h := md5.New() //nolint:gosec // see the import
	h.Write(renderedSalt[:])
	h.Write([]byte("nodes\n" + nodes.String()))
	return "rendered-" + v1alpha1.RenderedPool(nodes.Base) + "-" + hex.EncodeToString(h.Sum(nil))
}

// CheckName returns an error unless the name of a rendered config of a pool is that of its content.
func CheckName(pool string, mc *mcfgv1.MachineConfig, spec mcfgv1.MachineConfigSpec) error {
	want, err := RenderedName(pool, spec)
	if err != nil {
		return err
	}
	nodes, err := v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		return err
	}
	if !nodes.IsZero() && nodes.Base == want {
		want = TargetName(nodes)
	}
	if want != mc.Name {
		return fmt.Errorf("its content has the name %s", want)
	}
	return nil
}

// KeysOnce returns a spec whose inline config has each key of an object once, with its last value. JSON decoders differ
// for repeated keys: some use the last value, some merge the values.
func KeysOnce(spec mcfgv1.MachineConfigSpec) (mcfgv1.MachineConfigSpec, error) {
	if len(spec.Config.Raw) == 0 {
		return spec, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(spec.Config.Raw))
	decoder.UseNumber()
	var config any
	if err := decoder.Decode(&config); err != nil {
		return spec, fmt.Errorf("reading the inline config: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return spec, errors.New("reading the inline config: there is text after it")
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return spec, fmt.Errorf("writing the inline config: %w", err)
	}
	spec.Config.Raw = raw
	return spec, nil
}
