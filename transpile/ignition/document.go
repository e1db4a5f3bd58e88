package ignition

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

// Input is one document: an Ignition config that stands in a file of its own.
type Input struct {
	// Source is the config as JSON, or as YAML where it was patched.
	Source []byte
	// Origin maps paths in the config to places in the repository.
	Origin origin.Map
}

// Output is one document as a config.
type Output struct {
	// Config is what the document says. Kernel arguments stand beside the Ignition, where a running node takes them.
	Config machineconfig.Config
	// Origin maps paths of the output to places in the repository.
	Origin origin.Map
}

// Translate reads a document. The output is the zero value where a finding is fatal.
func Translate(in Input) (Output, []origin.Finding) {
	r, problems := Read(in.Source)
	if n := len(r.Config.KernelArguments.ShouldNotExist); n > 0 {
		problems = append(problems, Problem{
			Path: "$.kernelArguments.shouldNotExist", Rule: "kernel-arguments",
			Message: "shouldNotExist is not supported: a node can add kernel arguments and remove those it added, but not those of its image; build an image without them",
		})
	}
	findings := Findings(problems, in.Origin)
	if origin.Fatal(findings) {
		return Output{}, findings
	}
	out := Output{Config: machineconfig.Config{Ignition: r.Config, HasIgnition: true}, Origin: r.Places(in.Origin)}
	LiftKernelArguments(&out.Config, out.Origin)
	return out, findings
}

// Findings puts problems where their paths' lines are.
func Findings(problems []Problem, places origin.Map) []origin.Finding {
	var out []origin.Finding
	for _, p := range problems {
		at, _ := places.Find(p.Path)
		out = append(out, origin.Finding{Warning: p.Warning, Rule: p.Rule, Message: p.Message, At: at})
	}
	return out
}

// LiftKernelArguments moves the arguments that should exist from the Ignition, which only a first boot reads, into the
// spec, where the node's daemon applies them too. It changes both arguments.
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

// Places says where the parts of the reading stand in the repository, given that of the config that was read. The map
// is the caller's to change.
func (r Reading) Places(in origin.Map) origin.Map {
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
		return out // a config that was read can be written
	}
	r.places(in, out.At, v, "$")
	return out
}

func (r Reading) places(in origin.Map, out map[string]origin.Pos, v any, at string) {
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

// from is where a part of the reading stood.
func (r Reading) from(at string) string {
	for _, m := range r.moves {
		if rest, ok := strings.CutPrefix(at, m.to); ok && (rest == "" || rest[0] == '.') {
			return m.from + rest
		}
	}
	return at
}

// UpgradeSpec returns a MachineConfig's spec with its Ignition as 3.5.0 where it is of version 2, which nothing after
// this package reads. Any other spec is returned as it is. The error joins all problems, each naming its place.
func UpgradeSpec(spec mcfgv1.MachineConfigSpec) (mcfgv1.MachineConfigSpec, error) {
	raw := spec.Config.Raw
	if !IsOld(raw) {
		return spec, nil
	}
	r, problems := Read(raw)
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

// IsOld tells whether Ignition JSON is of a version 2 that is read here. For most others it costs a look at the bytes.
func IsOld(raw []byte) bool {
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
