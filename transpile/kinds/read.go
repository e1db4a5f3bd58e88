package kinds

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v35 "github.com/coreos/ignition/v2/config/v3_5"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/coreos/vcontext/report"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/message"
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
	cfg, rep, err := v35.ParseCompatibleVersion(f.json)
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
