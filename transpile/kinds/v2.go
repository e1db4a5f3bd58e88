package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/ignition/config/shared/errors"
	"github.com/coreos/ignition/config/v2_4"
	old "github.com/coreos/ignition/config/v2_4/types"
	"github.com/coreos/ignition/config/validate/report"

	"github.com/bunsen-os/bunsen/transpile/message"
)

// securityAstray is the version of Ignition for which Ignition's check of keys is wrong about ignition.security.tls.
// The Go type of this version embeds tls under its name, and the check takes the keys of an embedded struct for keys of
// the parent. So the check reports the key `tls`, which every config of the Config Transpiler has, although the decoder
// reads tls correctly.
const securityAstray = "2.3.0"

// security replaces the problems of ignition.security by those of version 2.2.0, which has the same section.
func (f flat) security(problems []IgnitionProblem) []IgnitionProblem {
	const part = "$.ignition.security"
	problems = slices.DeleteFunc(problems, func(p IgnitionProblem) bool {
		return p.Rule == "unknown-key" && below(p.Path, part)
	})
	var doc struct {
		Ignition map[string]any `json:"ignition"`
	}
	if json.Unmarshal(f.json, &doc) != nil || doc.Ignition["security"] == nil {
		return problems
	}
	alone, err := flatten(map[string]any{"ignition": map[string]any{
		"version":  "2.2.0",
		"security": doc.Ignition["security"],
	}})
	if err != nil {
		return problems // No error is possible, because flatten has already written the whole config without an error.
	}
	// The error is ignored, because parsing the whole config reports the same error.
	_, rep, _ := v2_4.Parse(alone.json)
	for _, p := range alone.oldProblems(rep, securityAstray) {
		if p.Rule == "unknown-key" && below(p.Path, part) {
			problems = append(problems, p)
		}
	}
	return problems
}

// below reports whether a path is the path of the part, or a path in the part.
func below(path, part string) bool { return path == part || strings.HasPrefix(path, part+".") }

func fatal(problems []IgnitionProblem) bool {
	for _, p := range problems {
		if !p.Warning {
			return true
		}
	}
	return false
}

// oldProblems converts the report of Ignition 2, without the problems that the translation solves.
func (f flat) oldProblems(rep report.Report, version string) []IgnitionProblem {
	var out []IgnitionProblem
	textAt := f.textAt()
	for _, e := range rep.Entries {
		at := f.at(e.Line)
		p := IgnitionProblem{
			Path: at, Rule: "ignition", Message: message.Translate(e.Message, textAt(at)),
			Warning: e.Kind != report.EntryError,
		}
		if key, unused := strings.CutPrefix(e.Message, "Config has unrecognized key: "); unused {
			p.Warning, p.Rule, p.Message = false, "unknown-key",
				fmt.Sprintf("Ignition %s knows no key %q here; check its spelling and its place", version, key)
		}
		if p.Warning && (e.Kind != report.EntryWarning || covered(e.Message)) {
			continue
		}
		out = append(out, p)
	}
	return out
}

// covered reports whether Bunsen drops a warning of Ignition 2, because the translation handles its cause. The
// translation handles or refuses deprecated fields, refuses files outside the root file system, and sets the mode 0644
// for a file without a mode.
func covered(message string) bool {
	return message == errors.ErrPermissionsUnset.Error() || strings.Contains(message, "deprecated") ||
		strings.Contains(message, "references nonexistent filesystem")
}

// version2 returns the problem of a part that version 3 does not have.
func version2(path, message string) IgnitionProblem {
	return IgnitionProblem{Path: path, Rule: "ignition-2", Message: message}
}

// mountPoints returns where Ignition mounts the file systems of a config. Ignition mounts only the root file system;
// units mount all other file systems.
func mountPoints(cfg old.Config) map[string]string {
	out := map[string]string{}
	for _, fs := range cfg.Storage.Filesystems {
		if fs.Name != "" {
			out[fs.Name] = ""
		}
		if fs.Name != "" && fs.Path != nil && *fs.Path == "/" {
			out[fs.Name] = "/"
		}
	}
	out["root"] = "/"
	return out
}
