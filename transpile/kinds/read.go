package kinds

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/coreos/ign-converter/translate/v24tov31"
	"github.com/coreos/ignition/config/v2_4"
	v31 "github.com/coreos/ignition/v2/config/v3_1/types"

	old "github.com/coreos/ignition/config/v2_4/types"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/message"

	"github.com/coreos/vcontext/report"
)

// IgnitionProblem is an error or a warning about one position in a config.
type IgnitionProblem struct {
	// Path is the path of the value in the config, such as `$.storage.files.0.path`.
	Path string
	// Warning is true if Bunsen can use the config despite the problem.
	Warning bool
	// Rule is a stable name in kebab-case.
	Rule string
	// Message says what is wrong and how to fix it, in one line.
	Message string
}

// IgnitionReading is a config, translated to Ignition 3.5.0.
type IgnitionReading struct {
	// Config is the whole config. For a config of version 2, Config is the result of the translation.
	Config ign.Config
	// moves are the parts whose path changed, with their original paths. moves is sorted by the length of the path, the
	// longest first.
	moves []move
}

// move is one part of a config whose path changed.
type move struct{ to, from string }

var (
	// older are the Ignition versions whose configs the parser of 3.5.0 reads.
	older = []string{"3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", machineconfig.Version}
	// oldest are the Ignition versions whose configs the function readV2 translates.
	oldest = []string{"2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"}
)

// newer is an Ignition version whose configs Read parses as 3.5.0. The parser refuses keys that only the newer version
// has.
const newer = "3.6.0"

// ReadIgnition reads a config, JSON or YAML. If any problem is an error and not a warning, the reading is the zero
// value. Keys that the Ignition version does not have are problems, because Ignition would ignore them.
func ReadIgnition(source []byte) (reading IgnitionReading, problems []IgnitionProblem) {
	// A panic in the parsers of old versions fails the translation of one commit, but does not end the process.
	defer func() {
		if r := recover(); r != nil {
			reading, problems = IgnitionReading{},
				[]IgnitionProblem{{Path: "$", Rule: "ignition", Message: fmt.Sprintf("reading it panicked: %v", r)}}
		}
	}()
	v, err := decode(source)
	if err != nil {
		return IgnitionReading{}, []IgnitionProblem{{Path: "$", Rule: "ignition", Message: err.Error()}}
	}
	version, bad := versionOf(v)
	if bad != nil {
		return IgnitionReading{}, []IgnitionProblem{*bad}
	}
	machineconfig.ReplaceArtifacts(v)
	f, err := flatten(v)
	if err != nil {
		return IgnitionReading{}, []IgnitionProblem{{Path: "$", Rule: "ignition", Message: err.Error()}}
	}
	if slices.Contains(oldest, version) {
		reading, problems = readV2(f, version)
	} else {
		reading, problems = readV3(f)
	}
	if slices.ContainsFunc(problems, func(p IgnitionProblem) bool { return !p.Warning }) {
		reading = IgnitionReading{}
	}
	return reading, problems
}

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
	newest, entries, err := ign.ParseCompatibleVersion(raw)
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

// dedupe drops repeated items, which version 3 does not allow. Of files and units with the same name, the last one
// counts. dedupe joins the drop-ins and SSH keys of all repeated items. The resulting lists are in reverse order, as
// those of the Machine Config Operator.
func dedupe(cfg old.Config) deduped {
	d := deduped{cfg: cfg}
	appended := d.appended(cfg)
	plain := cfg
	plain.Storage.Files = nil
	for i, f := range cfg.Storage.Files {
		if !f.Append && !d.later("$.storage.files", i, len(cfg.Storage.Files), func(j int) bool {
			return cfg.Storage.Files[j].Path == f.Path
		}) {
			plain.Storage.Files = append(plain.Storage.Files, f)
		}
	}
	for i, u := range cfg.Systemd.Units {
		d.dropins(i, u)
		d.later("$.systemd.units", i, len(cfg.Systemd.Units), func(j int) bool {
			return cfg.Systemd.Units[j].Name == u.Name
		})
	}
	for i := range plain.Storage.Files { // The function filesystemNames reports files on other file systems.
		plain.Storage.Files[i].Filesystem = "root"
	}
	out, err := v24tov31.RemoveDuplicateFilesUnitsUsers(plain)
	if err != nil {
		d.problems = append(d.problems, IgnitionProblem{Path: "$", Rule: "ignition-2", Message: err.Error()})
		return d
	}
	out.Storage.Files = append(out.Storage.Files, appended...)
	for i := range out.Passwd.Users {
		out.Passwd.Users[i].SSHAuthorizedKeys = unique(out.Passwd.Users[i].SSHAuthorizedKeys)
	}
	d.nodes(cfg)
	d.cfg = out
	d.trace(cfg)
	return d
}

// unique removes repeated items and keeps the first of them.
func unique[T comparable](list []T) []T {
	var out []T
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// versionOf returns the version as which Read parses a config. versionOf changes version 3.6.0 to 3.5.0, whose parser
// reports the keys that it does not have.
func versionOf(v any) (string, *IgnitionProblem) {
	supported := "Ignition versions here are 2.0.0 to 2.4.0, which are translated, 3.0.0 to 3.5.0, and 3.6.0 as far " +
		"as 3.5.0 can express it"
	top, ok := v.(map[string]any)
	if !ok {
		return "", &IgnitionProblem{
			Path: "$", Rule: "ignition",
			Message: `not an Ignition config: it is an object that begins with {"ignition": {"version": "3.5.0"}}`,
		}
	}
	if variant, is := top["variant"].(string); is && top["ignition"] == nil {
		return "", &IgnitionProblem{
			Path: "$.variant", Rule: "ignition-version",
			Message: fmt.Sprintf("this is a Butane document of the variant %q: end the name of the file in "+
				".bu", variant),
		}
	}
	head, _ := top["ignition"].(map[string]any)
	version, ok := head["version"].(string)
	switch {
	case head == nil:
		return "", &IgnitionProblem{
			Path: "$", Rule: "ignition-version",
			Message: "the config has no ignition.version; " +
				supported,
		}
	case !ok || version == "":
		return "", &IgnitionProblem{
			Path: "$.ignition", Rule: "ignition-version",
			Message: "the config has no ignition.version that is a text; " + supported,
		}
	case version == newer:
		head["version"] = machineconfig.Version
		return machineconfig.Version, nil
	case !slices.Contains(older, version) && !slices.Contains(oldest, version):
		return "", &IgnitionProblem{
			Path: "$.ignition.version", Rule: "ignition-version",
			Message: fmt.Sprintf("Ignition version %q is not supported; %s", version, supported),
		}
	}
	return version, nil
}

func readV3(f flat) (IgnitionReading, []IgnitionProblem) {
	cfg, rep, err := ign.ParseCompatibleVersion(f.json)
	problems := f.problems(rep)
	if err != nil && len(problems) == 0 {
		problems = append(problems, IgnitionProblem{Path: "$", Rule: "ignition", Message: err.Error()})
	}
	return IgnitionReading{Config: cfg}, problems
}

// problems converts Ignition's report. An unknown key is an error, because the effect of a typo would be missing on the
// node.
func (f flat) problems(rep report.Report) []IgnitionProblem {
	var out []IgnitionProblem
	textAt := f.textAt()
	for _, e := range rep.Entries {
		p := IgnitionProblem{Path: e.Context.String(), Rule: "ignition", Message: message.Translate(e.Message,
			textAt(e.Context.String())), Warning: !e.Kind.IsFatal()}
		if line, _ := e.Marker.Start(); len(e.Context.Path) == 0 && line > 0 {
			p.Path = f.at(int(line))
		}
		if mistyped := f.mistyped(&ign.Config{}); len(e.Context.Path) == 0 && mistyped != nil {
			p = *mistyped
		}
		if key, unused := strings.CutPrefix(e.Message, "unused key "); unused {
			p = IgnitionProblem{Path: p.Path, Rule: "unknown-key", Message: unknownKey(key)}
		}
		if p.Warning && (e.Kind == report.Info || strings.HasPrefix(e.Message, "setuid/setgid/sticky")) {
			continue // Another check refuses special mode bits in the configs of every version.
		}
		out = append(out, p)
	}
	return out
}

func unknownKey(key string) string {
	if instead := message.LeftOver(key); instead != "" {
		return fmt.Sprintf("Ignition knows no key %q here: %s", key, instead)
	}
	return fmt.Sprintf("Ignition knows no key %q here, or not in the version that the config names; check its "+
		"spelling and its place", key)
}

// MistypedIgnition returns the problem of the first value of a config of version 3 whose type is not the type of its
// field, or nil.
func MistypedIgnition(raw []byte) *IgnitionProblem {
	v, err := decode(raw)
	if err != nil {
		return nil // Whoever reads the config reports this.
	}
	f, err := flatten(v)
	if err != nil {
		return nil
	}
	return f.mistyped(&ign.Config{})
}

// mistyped returns the problem of a value whose type is not the type of its field, or nil. The message does not quote
// the value.
func (f flat) mistyped(into any) *IgnitionProblem {
	var typed *json.UnmarshalTypeError
	if !errors.As(json.Unmarshal(f.json, into), &typed) {
		return nil
	}
	return &IgnitionProblem{
		Path: f.atOffset(typed.Offset), Rule: "ignition",
		Message: fmt.Sprintf("%s stands here where %s belongs", article(typed.Value), belongs(typed.Type)) +
			hintOf(typed),
	}
}

// hintOf says how to write a mode, which users write as a text.
func hintOf(typed *json.UnmarshalTypeError) string {
	if typed.Value == "string" && strings.HasSuffix(strings.ToLower(typed.Field), "mode") {
		return ": a mode is a number without quotes, in YAML 0644 and in JSON 420"
	}
	return ""
}

// belongs returns the JSON type that belongs to a Go type, for a message.
func belongs(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	default:
		return "a whole number (a mode in decimal: 0644 is 420)"
	}
}

// article returns the JSON decoder's word for a value with its article: "a number" for `number -5`.
func article(value string) string {
	word, _, _ := strings.Cut(value, " ")
	if strings.HasPrefix(word, "a") || strings.HasPrefix(word, "o") {
		return "an " + word
	}
	return "a " + word
}
