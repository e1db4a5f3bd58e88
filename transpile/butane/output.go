package butane

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v35 "github.com/coreos/ignition/v2/config/v3_5"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// machineConfig is the shape of what an `openshift` dialect gives, whatever its version.
type machineConfig struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Config          json.RawMessage `json:"config"`
		KernelArguments []string        `json:"kernelArguments"`
		Extensions      []string        `json:"extensions"`
		FIPS            bool            `json:"fips"`
		KernelType      string          `json:"kernelType"`
	} `json:"spec"`
}

const roleLabel = "machineconfiguration.openshift.io/role"

// output turns what Butane gave, in any Ignition version, into a config of 3.5.0.
func (t *translator) output(final any, steps map[string]string) Output {
	raw, err := json.Marshal(final)
	if err != nil {
		t.fatal("$", "butane", "writing what Butane gave: %v", err)
		return Output{}
	}
	var out Output
	if t.dialect.variant == "openshift" {
		var mc machineConfig
		if err := json.Unmarshal(raw, &mc); err != nil {
			t.fatal("$", "butane", "reading what Butane gave: %v", err)
			return Output{}
		}
		out.Name, out.Role = mc.Metadata.Name, mc.Metadata.Labels[roleLabel]
		out.Config = machineconfig.Config{
			KernelArguments: mc.Spec.KernelArguments, Extensions: mc.Spec.Extensions,
			FIPS: mc.Spec.FIPS, KernelType: mc.Spec.KernelType,
		}
		raw, steps = mc.Spec.Config, unnest(steps)
	}
	out.Config.Ignition, err = t.newest(raw, steps)
	if err != nil {
		t.fatal("$", "ignition", "%v", err)
		return Output{}
	}
	out.Config.HasIgnition = true
	out.Origin = t.in.Origin.Through(steps)
	if root, ok := t.in.Origin.At["$"]; ok {
		out.Origin.At["$"] = root
	}
	liftKernelArguments(&out)
	return out
}

// unnest turns paths of a MachineConfig into paths of its Ignition, and of its spec for the rest.
func unnest(steps map[string]string) map[string]string {
	out := make(map[string]string, len(steps))
	for to, from := range steps {
		if rest, ok := strings.CutPrefix(to, "$.spec.config"); ok {
			out["$"+rest] = from
		} else if rest, ok := strings.CutPrefix(to, "$.spec."); ok {
			out["spec."+rest] = from
		}
	}
	return out
}

// newest reads Ignition JSON of 3.0 to 3.6 as 3.5.0. What 3.6 says beyond 3.5 is refused at its line.
func (t *translator) newest(raw []byte, steps map[string]string) (ign.Config, error) {
	if t.dialect.method == "ToIgn3_6Unvalidated" {
		raw = []byte(strings.Replace(string(raw), `"version":"3.6.0"`, `"version":"3.5.0"`, 1))
		t.beyond(raw, steps)
	}
	cfg, rep, err := v35.ParseCompatibleVersion(raw)
	for _, e := range rep.Entries {
		if e.Kind.IsFatal() {
			err = errors.Join(err, errors.New(e.Message))
		}
	}
	if err != nil {
		return ign.Config{}, fmt.Errorf("reading the Ignition as 3.5.0: %w", err)
	}
	return cfg, nil
}

// beyond refuses keys that 3.5 does not have. (Special mode bits are refused for every version, with all configs.)
func (t *translator) beyond(raw []byte, steps map[string]string) {
	_, rep, _ := v35.Parse(raw) // its error is reported when the config is read for good
	for _, e := range rep.Entries {
		if !strings.HasPrefix(strings.ToLower(e.Message), "unused key") {
			continue
		}
		m := origin.Map{At: map[string]origin.Pos{}}
		for to, from := range steps {
			if p, ok := t.in.Origin.Find(from); ok {
				m.At[to] = p
			}
		}
		at, _ := m.Find(e.Context.String())
		t.findings = append(t.findings, origin.Finding{
			Rule: "ignition-version", At: at,
			Message: e.Message + ": Ignition 3.6 knows it, but nodes here speak 3.5; write the document as fcos 1.6.0 without it",
		})
	}
}

// liftKernelArguments moves the arguments that should exist from the Ignition, which only a first boot reads, into the
// spec, where the node's daemon applies them too.
func liftKernelArguments(out *Output) {
	args := &out.Config.Ignition.KernelArguments
	n := len(out.Config.KernelArguments)
	for i, a := range args.ShouldExist {
		from := fmt.Sprintf("$.kernelArguments.shouldExist.%d", i)
		if p, ok := out.Origin.Find(from); ok {
			out.Origin.At[fmt.Sprintf("spec.kernelArguments.%d", n+i)] = p
		}
		out.Config.KernelArguments = append(out.Config.KernelArguments, string(a))
	}
	for to := range out.Origin.At {
		if strings.HasPrefix(to, "$.kernelArguments") {
			delete(out.Origin.At, to)
		}
	}
	args.ShouldExist, args.ShouldNotExist = nil, nil
}
