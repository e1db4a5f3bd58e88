package machineconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/path"
	"github.com/coreos/vcontext/report"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// Version is the Ignition spec version of every Config.
const Version = "3.5.0"

// supported is the list of versions that an error shows.
const supported = "3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0 and 3.5.0"

// Parse reads a spec. An Ignition config of an older supported version is translated to 3.5.0; unknown keys
// are dropped, as Ignition does. The error joins all problems of the config, each with its place, such as
// `files[2] /etc/x: …`; ProblemsOf takes it apart. The result depends on the spec's bytes only, so a caller may
// cache it by their digest. Parse applies Ignition's rules; Check has the other rules.
func Parse(spec mcfgv1.MachineConfigSpec) (Config, error) { return read(spec, parseIgnition) }

// Decode reads a spec as Parse does, but applies Ignition's rules only to older versions. They take most of the time,
// and a rendered config was checked before it got its name.
func Decode(spec mcfgv1.MachineConfigSpec) (Config, error) { return read(spec, decodeIgnition) }

func read(spec mcfgv1.MachineConfigSpec, ignition func([]byte) (ign.Config, error)) (Config, error) {
	c := Config{
		KernelArguments: spec.KernelArguments,
		Extensions:      spec.Extensions,
		KernelType:      spec.KernelType,
		FIPS:            spec.FIPS,
		OSImageURL:      spec.OSImageURL,
		ExtensionsImage: spec.BaseOSExtensionsContainerImage,
	}
	raw, err := rawConfig(spec)
	if err != nil || raw == nil {
		return c, err
	}
	c.Ignition, err = ignition(withArtifacts(raw))
	if err != nil {
		return Config{}, err
	}
	c.HasIgnition = true
	return c, nil
}

// withArtifacts is ReplaceArtifacts for JSON. JSON without such an address stays as it is.
func withArtifacts(raw []byte) []byte {
	if !bytes.Contains(raw, []byte("oci:")) {
		return raw
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var config map[string]any
	if decoder.Decode(&config) != nil || !ReplaceArtifacts(config) {
		return raw
	}
	out, err := json.Marshal(config)
	if err != nil {
		return raw
	}
	return out
}

// rawConfig returns the inline config's JSON, or nil when there is none.
func rawConfig(spec mcfgv1.MachineConfigSpec) ([]byte, error) {
	raw := spec.Config.Raw
	if raw == nil && spec.Config.Object != nil {
		var err error
		if raw, err = json.Marshal(spec.Config.Object); err != nil {
			return nil, fmt.Errorf("reading config: %w", err)
		}
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	return raw, nil
}

func parseIgnition(raw []byte) (ign.Config, error) {
	cfg, checked, err := decode(raw)
	if err != nil || checked {
		return cfg, err
	}
	if bad := Validate(Config{Ignition: cfg}); len(bad) > 0 {
		return ign.Config{}, bad.Err()
	}
	return cfg, nil
}

func decodeIgnition(raw []byte) (ign.Config, error) {
	cfg, _, err := decode(raw)
	return cfg, err
}

// decode is checked for an older version: it is translated by its own rules. The newest one, in which rendered configs
// are, is decoded like by v3_5.Parse, but without positions in the JSON. Finding them costs more time than the rest,
// and they are useless, because the JSON is one line.
func decode(raw []byte) (cfg ign.Config, checked bool, err error) {
	if json.Unmarshal(raw, &cfg) == nil && cfg.Ignition.Version == Version {
		return cfg, false, nil
	}
	version, err := versionOf(raw)
	if err != nil {
		return ign.Config{}, false, err
	}
	if version == Version {
		rpt, err := util.HandleParseErrors(raw, &ign.Config{})
		return ign.Config{}, false, problems(rpt, raw, err).Err()
	}
	cfg, rpt, err := ign.ParseCompatibleVersion(raw)
	if err != nil {
		return ign.Config{}, false, problems(rpt, raw, err).Err()
	}
	return cfg, true, nil
}

// versionOf reads ignition.version. For an unsupported version, the error of versionOf says what to do.
func versionOf(raw []byte) (string, error) {
	var head struct {
		Ignition struct {
			Version *string `json:"version"`
		} `json:"ignition"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return "", fmt.Errorf("reading config as JSON: %w", err)
	}
	v := head.Ignition.Version
	switch {
	case v == nil || *v == "":
		return "", fmt.Errorf("config has no ignition.version: set one of %s", supported)
	case strings.HasPrefix(*v, "2."):
		return "", fmt.Errorf("ignition.version %q is not supported (only %s are): rewrite the config as version 3, "+
			"for example with Butane", *v, supported)
	}
	minor, ok := strings.CutPrefix(*v, "3.")
	if !ok || len(minor) != len("x.0") || minor[0] < '0' || minor[0] > '5' || minor[1:] != ".0" {
		return "", fmt.Errorf("ignition.version %q is not supported: use one of %s", *v, supported)
	}
	return *v, nil
}

// Validate checks the config by Ignition's rules, as a machine that boots it does, and returns all problems. Parse
// calls it. A caller that merges configs must call it for the result.
func Validate(c Config) Problems {
	return fatal(c.Ignition, validate.ValidateWithContext(c.Ignition, nil))
}

// problems returns the errors of Ignition's report. The report does not contain the config, so problems decodes the
// config again to get the names of items.
func problems(rpt report.Report, raw []byte, cause error) Problems {
	var partial ign.Config
	_ = json.Unmarshal(raw, &partial) // An item that cannot be decoded gets no name.
	bad := fatal(partial, rpt)
	if len(bad) == 0 {
		bad = Problems{{Path: "$", Err: fmt.Errorf("reading config: %w", cause)}}
	}
	return bad
}

// ValidateBetween checks only the rules between entries of storage, such as a file below a link. A call of Validate
// with the changed entries and a call of ValidateBetween check as much as Validate with the whole merged config, and
// cost much less time.
func ValidateBetween(c Config) Problems {
	rpt := c.Ignition.Storage.Validate(path.New("json", "storage"))
	return fatal(c.Ignition, rpt)
}

// fatal returns the errors of a report.
func fatal(c ign.Config, rpt report.Report) (bad Problems) {
	for _, e := range rpt.Entries {
		if e.Kind.IsFatal() {
			at := reported(c, e.Context.Path)
			bad = append(bad, at.problem(errors.New(withoutQuote(e.Message))))
		}
	}
	return bad
}

// withoutQuote removes the quoted text of a unit from a message of Ignition, because the unit may contain a secret.
func withoutQuote(message string) string {
	before, _, found := strings.Cut(message, "found garbage after section name")
	if !found {
		return message
	}
	return before + "there is text after the [Name] of a section, on the same line"
}
