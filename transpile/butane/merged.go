package butane

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// readable are the versions of Ignition whose configs are checked here.
var readable = []string{"3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", machineconfig.Version}

// merged checks the configs that the output has Ignition merge or take in its place. Butane itself checks none but inline
// ones of its own version, and warns of the others.
func merged(out Output) (findings []origin.Finding) {
	config := out.Config.Ignition.Ignition.Config
	for i, r := range config.Merge {
		at, _ := out.Origin.Find("$.ignition.config.merge." + strconv.Itoa(i) + ".source")
		findings = append(findings, mergedConfig(r, at)...)
	}
	at, _ := out.Origin.Find("$.ignition.config.replace.source")
	return append(findings, mergedConfig(config.Replace, at)...)
}

// mergedConfig checks one config that stands at a place. What is wrong with its source is said with all sources.
func mergedConfig(r ign.Resource, at origin.Pos) (findings []origin.Finding) {
	raw, err := machineconfig.Contents(r)
	if err != nil || r.Source == nil {
		return nil
	}
	var head struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if json.Unmarshal(raw, &head) == nil && strings.HasPrefix(head.Ignition.Version, "3.") && !slices.Contains(readable, head.Ignition.Version) {
		return []origin.Finding{{Warning: true, Rule: "merged-config", At: at, Message: fmt.Sprintf(
			"the Ignition config that stands here is of version %s and was not checked: versions to %s are known here, and a node that does not know it does not boot", head.Ignition.Version, machineconfig.Version,
		)}}
	}
	if _, err := machineconfig.Parse(mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}}); err != nil {
		for _, problem := range strings.Split(err.Error(), "\n") {
			findings = append(findings, origin.Finding{Rule: "merged-config", At: at, Message: "in the Ignition config that stands here: " + problem})
		}
	}
	return findings
}
