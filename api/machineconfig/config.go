package machineconfig

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// Config is one MachineConfig's spec in typed form. The zero value is the empty config.
type Config struct {
	// Ignition is the inline config, up-converted to 3.5.0.
	Ignition ign.Config
	// HasIgnition is set if spec.config exists, also if it is empty.
	HasIgnition bool
	// KernelArguments as written; one entry may hold several arguments separated by blanks.
	KernelArguments []string
	// Extensions as written.
	Extensions []string
	// KernelType is "", "default", "realtime" or "64k-pages"; "" means default.
	KernelType string
	// FIPS enables FIPS mode.
	FIPS bool
	// OSImageURL is the OS image, or "".
	OSImageURL string
	// ExtensionsImage is spec.baseOSExtensionsContainerImage, or "".
	ExtensionsImage string
}

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

// SplitKargs splits entries of kernelArguments into single arguments, at blanks outside double quotes. The quotes stay
// in the arguments. Single quotes have no effect, as on the kernel's command line. All code that splits kernel
// arguments uses SplitKargs. Check refuses an entry with an open quote.
func SplitKargs(entries []string) []string {
	args := []string{}
	for _, entry := range entries {
		quoted := false
		args = append(args, strings.FieldsFunc(entry, func(r rune) bool {
			if r == '"' {
				quoted = !quoted
			}
			return !quoted && unicode.IsSpace(r)
		})...)
	}
	return args
}

// Standalone returns the config as an Ignition config, for a machine without a server and a daemon. The kernel
// arguments become kernel arguments of the Ignition config. leftOut lists the fields of the MachineConfig that Ignition
// does not have. The errors of Standalone are those of Flat.
func Standalone(c Config) (standalone Config, leftOut []string, err error) {
	flat, err := Flat(c) // The flat form counts, because a merged config could remove a kernel argument.
	if err != nil {
		return Config{}, nil, err
	}
	out := Config{HasIgnition: true, Ignition: flat.Ignition}
	out.Ignition.Ignition.Version = Version
	shouldExist := slices.Clone(flat.Ignition.KernelArguments.ShouldExist)
	for _, arg := range SplitKargs(c.KernelArguments) {
		a := ign.KernelArgument(arg) // The kernel takes the last of several, so the last of equal ones stays.
		shouldExist = append(slices.DeleteFunc(shouldExist, func(b ign.KernelArgument) bool { return a == b }), a)
	}
	out.Ignition.KernelArguments.ShouldExist = shouldExist
	for _, rest := range []struct {
		field string
		isSet bool
	}{
		{"osImageURL", c.OSImageURL != ""},
		{"baseOSExtensionsContainerImage", c.ExtensionsImage != ""},
		{"extensions", len(c.Extensions) > 0},
		{"kernelType", c.KernelType != "" && c.KernelType != "default"},
		{"fips", c.FIPS},
	} {
		if rest.isSet {
			leftOut = append(leftOut, rest.field)
		}
	}
	return out, leftOut, nil
}
