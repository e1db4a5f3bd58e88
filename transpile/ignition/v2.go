package ignition

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

// readV2 translates a config of version 2 as the original does: what stands twice counts once, the last of it; what
// version 3 cannot say is a problem.
func readV2(f flat, version string) (Reading, []Problem) {
	cfg, rep, err := v2_4.Parse(f.json)
	problems := f.oldProblems(rep, version)
	if version == securityAstray {
		problems = f.security(problems)
	}
	if err != nil {
		if mistyped := f.mistyped(&old.Config{}); mistyped != nil {
			return Reading{}, []Problem{*mistyped}
		}
		if !rep.IsFatal() {
			problems = append(problems, Problem{Path: "$", Rule: "ignition", Message: err.Error()})
		}
		return Reading{}, problems
	}
	problems = append(problems, untranslatable(cfg)...)
	d := dedupe(cfg)
	problems = append(problems, d.problems...)
	if fatal(problems) {
		return Reading{}, problems
	}
	head := d.cfg.Ignition
	d.cfg.Ignition.Config.Append, d.cfg.Ignition.Security.TLS.CertificateAuthorities = nil, nil
	translated, err := v24tov31.Translate(d.cfg, mountPoints(cfg))
	if err != nil {
		return Reading{}, append(problems, Problem{Path: "$", Rule: "ignition", Message: "translating it from version 2: " + strings.Join(strings.Fields(err.Error()), " ")})
	}
	references(&translated, head)
	raw, err := json.Marshal(translated)
	if err != nil {
		return Reading{}, append(problems, Problem{Path: "$", Rule: "ignition", Message: fmt.Sprintf("writing it as version 3: %v", err)})
	}
	out := Reading{moves: d.moves}
	newest, entries, err := v35.ParseCompatibleVersion(raw)
	for _, e := range entries.Entries {
		if e.Kind.IsFatal() {
			problems = append(problems, Problem{Path: out.from(e.Context.String()), Rule: "ignition", Message: "translated from version 2: " + e.Message})
		}
	}
	if err != nil && !fatal(problems) {
		problems = append(problems, Problem{Path: "$", Rule: "ignition", Message: fmt.Sprintf("translating it from version 2: %v", err)})
	}
	out.Config = newest
	return out, problems
}

// securityAstray is the version whose type embeds ignition.security.tls under its name. Ignition's own check of keys takes an embedded
// part's keys for those of the part around it, so it reports `tls`, which every config of the Config Transpiler has. Decoding is right.
const securityAstray = "2.3.0"

// security replaces what Ignition says of ignition.security by what its version 2.2.0 says, which has the same part.
func (f flat) security(problems []Problem) []Problem {
	const part = "$.ignition.security"
	problems = slices.DeleteFunc(problems, func(p Problem) bool { return p.Rule == "unknown-key" && below(p.Path, part) })
	var doc struct {
		Ignition map[string]any `json:"ignition"`
	}
	if json.Unmarshal(f.json, &doc) != nil || doc.Ignition["security"] == nil {
		return problems
	}
	alone, err := flatten(map[string]any{"ignition": map[string]any{"version": "2.2.0", "security": doc.Ignition["security"]}})
	if err != nil {
		return problems // the whole was written by the same function
	}
	_, rep, _ := v2_4.Parse(alone.json) // an error is the whole's too
	for _, p := range alone.oldProblems(rep, securityAstray) {
		if p.Rule == "unknown-key" && below(p.Path, part) {
			problems = append(problems, p)
		}
	}
	return problems
}

// below reports whether a path is that of a part, or of something in it.
func below(path, part string) bool { return path == part || strings.HasPrefix(path, part+".") }

func fatal(problems []Problem) bool {
	for _, p := range problems {
		if !p.Warning {
			return true
		}
	}
	return false
}

// oldProblems takes over what Ignition 2 has to say, but for what the translation takes care of.
func (f flat) oldProblems(rep report.Report, version string) []Problem {
	var out []Problem
	textAt := f.textAt()
	for _, e := range rep.Entries {
		at := f.at(e.Line)
		p := Problem{Path: at, Rule: "ignition", Message: message.Translate(e.Message, textAt(at)), Warning: e.Kind != report.EntryError}
		if key, unused := strings.CutPrefix(e.Message, "Config has unrecognized key: "); unused {
			p.Warning, p.Rule, p.Message = false, "unknown-key", fmt.Sprintf("Ignition %s knows no key %q here; check its spelling and its place", version, key)
		}
		if p.Warning && (e.Kind != report.EntryWarning || covered(e.Message)) {
			continue
		}
		out = append(out, p)
	}
	return out
}

// covered tells of warnings that say nothing here: what is deprecated is translated, or refused for what it is; files are
// on the root file system, or refused; and the default mode is 0644.
func covered(message string) bool {
	return message == errors.ErrPermissionsUnset.Error() || strings.Contains(message, "deprecated") || strings.Contains(message, "references nonexistent filesystem")
}

// untranslatable finds what version 3 cannot say.
func untranslatable(cfg old.Config) []Problem {
	var out []Problem
	say := func(path, message string) {
		out = append(out, Problem{Path: path, Rule: "ignition-2", Message: message})
	}
	if len(cfg.Networkd.Units) > 0 {
		say("$.networkd", "version 3 has no networkd: write the units as files below /etc/systemd/network")
	}
	for i, u := range cfg.Passwd.Users {
		if u.Create != nil {
			say(fmt.Sprintf("$.passwd.users.%d.create", i), "version 3 has no `create`: write its fields beside the user's name")
		}
	}
	for i, d := range cfg.Storage.Disks {
		for j, p := range d.Partitions {
			if p.Size != nil || p.Start != nil {
				say(fmt.Sprintf("$.storage.disks.%d.partitions.%d", i, j), "version 3 has no sizes in sectors: write the config in version 3, with sizeMiB and startMiB")
			}
		}
	}
	mounts := mountPoints(cfg)
	for i, fs := range cfg.Storage.Filesystems {
		at := fmt.Sprintf("$.storage.filesystems.%d", i)
		switch {
		case fs.Mount != nil && fs.Mount.Create != nil:
			say(at+".mount.create", "version 3 has no `create`: write wipeFilesystem and options beside the format")
		case fs.Path != nil && *fs.Path != "/":
			say(at+".path", "version 3 has no names for file systems: write the whole path of each file that is on it")
		}
	}
	node := func(at, name string) {
		if mounts[name] != "/" {
			say(at+".filesystem", fmt.Sprintf("version 3 has no names for file systems: write the whole path, and not that it is on %q", name))
		}
	}
	for i, f := range cfg.Storage.Files {
		node(fmt.Sprintf("$.storage.files.%d", i), f.Filesystem)
	}
	for i, d := range cfg.Storage.Directories {
		node(fmt.Sprintf("$.storage.directories.%d", i), d.Filesystem)
	}
	for i, l := range cfg.Storage.Links {
		node(fmt.Sprintf("$.storage.links.%d", i), l.Filesystem)
	}
	return out
}

// mountPoints says where a config's file systems are. Only the root has a place; the others are made, and mounted by
// nobody, unless a unit does.
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

// references translates what the library would give the source of the last of each list.
func references(to *v31.Config, from old.Ignition) {
	for _, r := range from.Config.Append {
		to.Ignition.Config.Merge = append(to.Ignition.Config.Merge, resource(r.Source, r.Verification, r.HTTPHeaders))
	}
	for _, r := range from.Security.TLS.CertificateAuthorities {
		to.Ignition.Security.TLS.CertificateAuthorities = append(to.Ignition.Security.TLS.CertificateAuthorities, resource(r.Source, r.Verification, r.HTTPHeaders))
	}
}

func resource(source string, verification old.Verification, headers old.HTTPHeaders) v31.Resource {
	out := v31.Resource{Source: &source, Verification: v31.Verification{Hash: verification.Hash}}
	for _, h := range headers {
		out.HTTPHeaders = append(out.HTTPHeaders, v31.HTTPHeader{Name: h.Name, Value: &h.Value})
	}
	return out
}
