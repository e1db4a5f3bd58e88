package peers

import (
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// Original names the peer of Merge.
const Original = "the original's merge"

// Merge renders a pool by the rules of the machine-config-operator: each config is parsed to check it, in the order of
// names it is parsed again and merged into the result so far, each file gets its default for overwrite, and the name is
// made from a hash of the YAML. It keeps nothing between two runs.
func Merge(pool string, mcs []*mcfgv1.MachineConfig) (name string, err error) {
	ordered := slices.SortedStableFunc(slices.Values(mcs), func(x, y *mcfgv1.MachineConfig) int {
		return strings.Compare(x.Name, y.Name)
	})
	for _, mc := range ordered {
		if _, err := parse(mc); err != nil {
			return "", err
		}
	}
	var out ign.Config
	for i, mc := range ordered {
		next, err := parse(mc)
		switch {
		case err != nil:
			return "", err
		case i == 0:
			out = next
		default:
			out = ign.Merge(out, next)
		}
	}
	overwrite := true
	for i := range out.Storage.Files {
		if out.Storage.Files[i].Overwrite == nil {
			out.Storage.Files[i].Overwrite = &overwrite
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("writing the config of %s: %w", pool, err)
	}
	var merged mcfgv1.MachineConfig
	merged.Spec.Config.Raw = raw
	text, err := yaml.Marshal(merged)
	if err != nil {
		return "", fmt.Errorf("writing the config of %s: %w", pool, err)
	}
	return fmt.Sprintf("rendered-%s-%x", pool, md5.Sum(text)), nil
}

// InARow names the peer of Build.
const InARow = "Butane and " + Original

// Build translates the documents of a pool with Butane, and merges the results by the rules of the original.
func Build(pool string, texts ...[]byte) (name string, err error) {
	configs, err := Butane(texts...)
	if err != nil {
		return "", err
	}
	var mcs []*mcfgv1.MachineConfig
	for i, raw := range configs {
		mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("50-%s-%05d", pool, i)}}
		mc.Spec.Config.Raw = raw
		mcs = append(mcs, mc)
	}
	return Merge(pool, mcs)
}

func parse(mc *mcfgv1.MachineConfig) (ign.Config, error) {
	c, report, err := ign.ParseCompatibleVersion(mc.Spec.Config.Raw)
	if err == nil && report.IsFatal() {
		err = errors.New(report.String())
	}
	if err != nil {
		return c, fmt.Errorf("parsing MachineConfig %s: %w", mc.Name, err)
	}
	return c, nil
}
