package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// IgnitionInput is one document: an Ignition config in a file of its own.
type IgnitionInput struct {
	// Source is the config as JSON, or as YAML if an overlay patched it.
	Source []byte
	// Origin maps paths in the config to places in the repository.
	Origin origin.Map
}

// IgnitionOutput is one document as a config.
type IgnitionOutput struct {
	// Config is the content of the document. Kernel arguments are in the spec, where the daemon reads them.
	Config machineconfig.Config
	// Origin maps paths of the output to places in the repository.
	Origin origin.Map
}

// TranslateIgnition reads a document. If a finding is fatal, the output is the zero value.
func TranslateIgnition(in IgnitionInput) (IgnitionOutput, []origin.Finding) {
	r, problems := ReadIgnition(in.Source)
	if n := len(r.Config.KernelArguments.ShouldNotExist); n > 0 {
		problems = append(problems, IgnitionProblem{
			Path: "$.kernelArguments.shouldNotExist", Rule: "kernel-arguments",
			Message: "shouldNotExist is not supported: a node can remove only the kernel arguments that it added, " +
				"not those of its image. Build an image without them",
		})
	}
	findings := IgnitionFindings(problems, in.Origin)
	if origin.Fatal(findings) {
		return IgnitionOutput{}, findings
	}
	out := IgnitionOutput{
		Config: machineconfig.Config{Ignition: r.Config, HasIgnition: true},
		Origin: r.Places(in.Origin),
	}
	LiftKernelArguments(&out.Config, out.Origin)
	return out, findings
}

// IgnitionFindings turns problems into findings with the positions of their paths.
func IgnitionFindings(problems []IgnitionProblem, places origin.Map) []origin.Finding {
	var out []origin.Finding
	for _, p := range problems {
		at, _ := places.Find(p.Path)
		out = append(out, origin.Finding{Warning: p.Warning, Rule: p.Rule, Message: p.Message, At: at})
	}
	return out
}

// LiftKernelArguments moves the arguments under shouldExist from the Ignition config into the spec. Ignition reads
// kernel arguments only at the first boot; the daemon applies the arguments of the spec at every update.
// LiftKernelArguments changes both parameters.
func LiftKernelArguments(c *machineconfig.Config, places origin.Map) {
	args := &c.Ignition.KernelArguments
	n := len(c.KernelArguments)
	for i, a := range args.ShouldExist {
		if p, ok := places.Find("$.kernelArguments.shouldExist." + strconv.Itoa(i)); ok {
			places.At["spec.kernelArguments."+strconv.Itoa(n+i)] = p
		}
		c.KernelArguments = append(c.KernelArguments, string(a))
	}
	for to := range places.At {
		if strings.HasPrefix(to, "$.kernelArguments") {
			delete(places.At, to)
		}
	}
	args.ShouldExist, args.ShouldNotExist = nil, nil
}

// Places returns the positions of the reading's parts in the repository. The parameter in has the positions in the
// config that was read. The caller may change the returned map.
func (r IgnitionReading) Places(in origin.Map) origin.Map {
	out := origin.Map{Files: in.Files, At: make(map[string]origin.Pos, len(in.At))}
	if r.moves == nil {
		for p, at := range in.At {
			out.At[p] = at
		}
		return out
	}
	raw, err := machineconfig.Config{Ignition: r.Config, HasIgnition: true}.IgnitionJSON()
	var v any
	if err != nil || json.Unmarshal(raw, &v) != nil {
		return out // This error cannot occur: a config that was parsed can be encoded.
	}
	r.places(in, out.At, v, "$")
	return out
}

func (r IgnitionReading) places(in origin.Map, out map[string]origin.Pos, v any, at string) {
	if p, ok := in.Find(r.from(at)); ok {
		out[at] = p
	}
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			r.places(in, out, child, at+"."+k)
		}
	case []any:
		for i, child := range v {
			r.places(in, out, child, at+"."+strconv.Itoa(i))
		}
	}
}

// from returns the path that a part of the reading had in the original config.
func (r IgnitionReading) from(at string) string {
	for _, m := range r.moves {
		if rest, ok := strings.CutPrefix(at, m.to); ok && (rest == "" || rest[0] == '.') {
			return m.from + rest
		}
	}
	return at
}

// UpgradeSpec returns a MachineConfig's spec with its Ignition as version 3.5.0. UpgradeSpec translates version 2,
// which no other package reads, and returns any other spec unchanged. The error joins all problems, each with its path.
func UpgradeSpec(spec mcfgv1.MachineConfigSpec) (mcfgv1.MachineConfigSpec, error) {
	raw := spec.Config.Raw
	if !IsOldIgnition(raw) {
		return spec, nil
	}
	r, problems := ReadIgnition(raw)
	var bad []error
	for _, p := range problems {
		if !p.Warning {
			bad = append(bad, fmt.Errorf("%s: %s", strings.TrimPrefix(p.Path, "$."), p.Message))
		}
	}
	if len(bad) > 0 {
		return mcfgv1.MachineConfigSpec{}, errors.Join(bad...)
	}
	var err error
	spec.Config.Object = nil
	spec.Config.Raw, err = machineconfig.Config{Ignition: r.Config, HasIgnition: true}.IgnitionJSON()
	return spec, err
}

// IsOldIgnition reports whether Ignition JSON has a version 2 that this package reads. For most configs of other
// versions, IsOld does not parse the JSON.
func IsOldIgnition(raw []byte) bool {
	if !bytes.Contains(raw, []byte(`"2.`)) {
		return false
	}
	var head struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	return json.Unmarshal(raw, &head) == nil && slices.Contains(oldest, head.Ignition.Version)
}
