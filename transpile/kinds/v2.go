package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/ign-converter/translate/v24tov31"
	"github.com/coreos/ignition/config/shared/errors"
	"github.com/coreos/ignition/config/v2_4"
	old "github.com/coreos/ignition/config/v2_4/types"
	"github.com/coreos/ignition/config/validate/report"
	v31 "github.com/coreos/ignition/v2/config/v3_1/types"
	v35 "github.com/coreos/ignition/v2/config/v3_5"

	"github.com/bunsen-os/bunsen/transpile/message"
)

// readV2 translates a config of version 2 as the Machine Config Operator does: of repeated items, the last one counts.
// readV2 reports a problem for each part that version 3 cannot express.
func readV2(f flat, version string) (IgnitionReading, []IgnitionProblem) {
	cfg, rep, err := v2_4.Parse(f.json)
	problems := f.oldProblems(rep, version)
	if version == securityAstray {
		problems = f.security(problems)
	}
	if err != nil {
		if mistyped := f.mistyped(&old.Config{}); mistyped != nil {
			return IgnitionReading{}, []IgnitionProblem{*mistyped}
		}
		if !rep.IsFatal() {
			problems = append(problems, IgnitionProblem{Path: "$", Rule: "ignition", Message: err.Error()})
		}
		return IgnitionReading{}, problems
	}
	problems = append(problems, untranslatable(cfg)...)
	d := dedupe(cfg)
	problems = append(problems, d.problems...)
	if fatal(problems) {
		return IgnitionReading{}, problems
	}
	head := d.cfg.Ignition
	d.cfg.Ignition.Config.Append, d.cfg.Ignition.Security.TLS.CertificateAuthorities = nil, nil
	translated, err := v24tov31.Translate(d.cfg, mountPoints(cfg))
	if err != nil {
		return IgnitionReading{},
			append(problems, IgnitionProblem{Path: "$", Rule: "ignition", Message: "translating it from version 2: " +
				strings.Join(strings.Fields(err.Error()), " ")})
	}
	references(&translated, head)
	raw, err := json.Marshal(translated)
	if err != nil {
		return IgnitionReading{},
			append(problems, IgnitionProblem{
				Path: "$", Rule: "ignition",
				Message: fmt.Sprintf("writing it as version 3: %v",
					err),
			})
	}
	out := IgnitionReading{moves: d.moves}
	newest, entries, err := v35.ParseCompatibleVersion(raw)
	for _, e := range entries.Entries {
		if e.Kind.IsFatal() {
			problems = append(problems, IgnitionProblem{
				Path: out.from(e.Context.String()), Rule: "ignition",
				Message: "translated from version 2: " + e.Message,
			})
		}
	}
	if err != nil && !fatal(problems) {
		problems = append(problems, IgnitionProblem{
			Path: "$", Rule: "ignition",
			Message: fmt.Sprintf("translating it from version 2: %v", err),
		})
	}
	out.Config = newest
	return out, problems
}

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

// untranslatable finds parts that version 3 cannot express.
func untranslatable(cfg old.Config) []IgnitionProblem {
	var out []IgnitionProblem
	if len(cfg.Networkd.Units) > 0 {
		out = append(out, version2("$.networkd", "version 3 has no networkd: write the units as files below "+
			"/etc/systemd/network"))
	}
	for i, u := range cfg.Passwd.Users {
		if u.Create != nil {
			out = append(out, version2(fmt.Sprintf("$.passwd.users.%d.create", i),
				"version 3 has no `create`: write its fields beside the user's name"))
		}
	}
	return slices.Concat(out, sizesInSectors(cfg), filesystemOptions(cfg), filesystemNames(cfg))
}

// version2 returns the problem of a part that version 3 does not have.
func version2(path, message string) IgnitionProblem {
	return IgnitionProblem{Path: path, Rule: "ignition-2", Message: message}
}

func sizesInSectors(cfg old.Config) (out []IgnitionProblem) {
	for i, d := range cfg.Storage.Disks {
		for j, p := range d.Partitions {
			if p.Size != nil || p.Start != nil {
				out = append(out, version2(fmt.Sprintf("$.storage.disks.%d.partitions.%d", i, j),
					"version 3 has no sizes in sectors: write the config in version 3, with sizeMiB and startMiB"))
			}
		}
	}
	return out
}

func filesystemOptions(cfg old.Config) (out []IgnitionProblem) {
	for i, fs := range cfg.Storage.Filesystems {
		at := fmt.Sprintf("$.storage.filesystems.%d", i)
		switch {
		case fs.Mount != nil && fs.Mount.Create != nil:
			out = append(out, version2(at+".mount.create", "version 3 has no `create`: write wipeFilesystem and "+
				"options beside the format"))
		case fs.Path != nil && *fs.Path != "/":
			out = append(out, version2(at+".path", "version 3 has no names for file systems: write the whole path of "+
				"each file that is on it"))
		}
	}
	return out
}

// filesystemNames finds files, directories and links on a file system that is not the root.
func filesystemNames(cfg old.Config) (out []IgnitionProblem) {
	mounts := mountPoints(cfg)
	check := func(kind string, i int, name string) {
		if mounts[name] != "/" {
			out = append(out, version2(fmt.Sprintf("$.storage.%s.%d.filesystem", kind, i),
				fmt.Sprintf("version 3 has no names for file systems: write the whole path, and not that it is on %q",
					name)))
		}
	}
	for i, f := range cfg.Storage.Files {
		check("files", i, f.Filesystem)
	}
	for i, d := range cfg.Storage.Directories {
		check("directories", i, d.Filesystem)
	}
	for i, l := range cfg.Storage.Links {
		check("links", i, l.Filesystem)
	}
	return out
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

// references translates the lists of merged configs and certificate authorities. The library has a bug: it gives every
// item of such a list the source of the last item.
func references(to *v31.Config, from old.Ignition) {
	for _, r := range from.Config.Append {
		to.Ignition.Config.Merge = append(to.Ignition.Config.Merge,
			remoteResource(r.Source, r.Verification, r.HTTPHeaders))
	}
	for _, r := range from.Security.TLS.CertificateAuthorities {
		to.Ignition.Security.TLS.CertificateAuthorities = append(to.Ignition.Security.TLS.CertificateAuthorities,
			remoteResource(r.Source, r.Verification, r.HTTPHeaders))
	}
}

func remoteResource(source string, verification old.Verification, headers old.HTTPHeaders) v31.Resource {
	out := v31.Resource{Source: &source, Verification: v31.Verification{Hash: verification.Hash}}
	for _, h := range headers {
		out.HTTPHeaders = append(out.HTTPHeaders, v31.HTTPHeader{Name: h.Name, Value: &h.Value})
	}
	return out
}
