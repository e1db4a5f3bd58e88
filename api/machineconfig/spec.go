package machineconfig

import (
	"encoding/json"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Spec writes the config in its one canonical form: Ignition 3.5.0 without empty structs (absent when HasIgnition is
// false), lists never null. The hash in a rendered config's name is the hash of exactly this canonical form.
func (c Config) Spec() (mcfgv1.MachineConfigSpec, error) {
	spec := mcfgv1.MachineConfigSpec{
		OSImageURL:                     c.OSImageURL,
		BaseOSExtensionsContainerImage: c.ExtensionsImage,
		KernelArguments:                append([]string{}, c.KernelArguments...),
		Extensions:                     append([]string{}, c.Extensions...),
		FIPS:                           c.FIPS,
		KernelType:                     c.KernelType,
	}
	if !c.HasIgnition {
		return spec, nil
	}
	raw, err := c.IgnitionJSON()
	if err != nil {
		return mcfgv1.MachineConfigSpec{}, err
	}
	spec.Config = runtime.RawExtension{Raw: raw}
	return spec, nil
}

// IgnitionJSON writes the Ignition config alone, compact, without empty structs and with its version set.
func (c Config) IgnitionJSON() ([]byte, error) {
	cfg := c.Ignition
	cfg.Ignition.Version = Version
	raw, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("writing config: %w", err)
	}
	return dropEmpty(raw), nil
}

// dropEmpty removes every `"key":{}` from compact JSON, also objects that become empty because of a removal. Ignition's
// types have many optional structs, which encoding/json writes even if they are empty. dropEmpty keeps an empty object
// in a list, because the object is an item of the list.
func dropEmpty(in []byte) []byte {
	p := pruner{in: in, out: make([]byte, 0, len(in))}
	p.value()
	return p.out
}

// pruner copies compact JSON from in to out.
type pruner struct {
	in, out []byte
	at      int
}

// value copies one value and reports whether it is an empty object.
func (p *pruner) value() bool {
	switch p.in[p.at] {
	case '{':
		return p.object()
	case '[':
		p.list()
	case '"':
		p.text()
	default:
		for p.at < len(p.in) && p.in[p.at] != ',' && p.in[p.at] != '}' && p.in[p.at] != ']' {
			p.copy()
		}
	}
	return false
}

func (p *pruner) object() bool {
	p.copy() // {
	start := len(p.out)
	for p.in[p.at] != '}' {
		before := len(p.out)
		if p.in[p.at] == ',' {
			p.at++
		}
		if before > start {
			p.out = append(p.out, ',')
		}
		p.text()
		p.copy() // :
		if p.value() {
			p.out = p.out[:before]
		}
	}
	empty := len(p.out) == start
	p.copy() // }
	return empty
}

func (p *pruner) list() {
	p.copy() // [
	for p.in[p.at] != ']' {
		if p.in[p.at] == ',' {
			p.copy()
		}
		p.value()
	}
	p.copy() // ]
}

// text copies a string with its quotes and escapes.
func (p *pruner) text() {
	end := p.at + 1
	for p.in[end] != '"' {
		if p.in[end] == '\\' {
			end++
		}
		end++
	}
	p.out = append(p.out, p.in[p.at:end+1]...)
	p.at = end + 1
}

func (p *pruner) copy() {
	p.out = append(p.out, p.in[p.at])
	p.at++
}
