package ignition

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

// Problem is one thing to say about one place in a config.
type Problem struct {
	// Path of the place in the config: `$.storage.files.0.path`.
	Path string
	// Warning: the config is usable all the same.
	Warning bool
	// Rule is a stable name in kebab-case.
	Rule string
	// Message says what is wrong and how to mend it, in one line.
	Message string
}

// Reading is a config as Ignition 3.5.0.
type Reading struct {
	// Config is the whole config. Of version 2 it holds what translating leaves.
	Config ign.Config
	// moves say where parts of the config stood that are no longer where they were, the longest path first.
	moves []move
}

// move is one part of a config that stood elsewhere.
type move struct{ to, from string }

var (
	// older are the versions whose configs are read as they are.
	older = []string{"3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", machineconfig.Version}
	// oldest are the versions whose configs are translated.
	oldest = []string{"2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"}
)

// newer is the version whose configs are read where they say nothing that only it knows.
const newer = "3.6.0"

// Read reads a config, JSON or YAML. The reading is the zero value where a problem is more than a warning. Keys that the
// version does not know are problems: Ignition would pass over them.
func Read(source []byte) (reading Reading, problems []Problem) {
	defer func() { // a config that the parsers of old versions did not foresee costs one commit, not the process
		if r := recover(); r != nil {
			reading, problems = Reading{}, []Problem{{Path: "$", Rule: "ignition", Message: fmt.Sprintf("reading it panicked: %v", r)}}
		}
	}()
	v, err := decode(source)
	if err != nil {
		return Reading{}, []Problem{{Path: "$", Rule: "ignition", Message: err.Error()}}
	}
	version, bad := versionOf(v)
	if bad != nil {
		return Reading{}, []Problem{*bad}
	}
	f, err := flatten(v)
	if err != nil {
		return Reading{}, []Problem{{Path: "$", Rule: "ignition", Message: err.Error()}}
	}
	if slices.Contains(oldest, version) {
		reading, problems = readV2(f, version)
	} else {
		reading, problems = readV3(f)
	}
	if slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning }) {
		reading = Reading{}
	}
	return reading, problems
}

// versionOf returns the version that a config is to be read as. A config of 3.6.0 is read as 3.5.0, whose parser finds
// what it does not know.
func versionOf(v any) (string, *Problem) {
	supported := "Ignition versions here are 2.0.0 to 2.4.0, which are translated, 3.0.0 to 3.5.0, and 3.6.0 as far as 3.5.0 can say it"
	top, ok := v.(map[string]any)
	if !ok {
		return "", &Problem{Path: "$", Rule: "ignition", Message: `not an Ignition config: it is an object that begins with {"ignition": {"version": "3.5.0"}}`}
	}
	head, _ := top["ignition"].(map[string]any)
	version, ok := head["version"].(string)
	switch {
	case head == nil:
		return "", &Problem{Path: "$", Rule: "ignition-version", Message: "the config has no ignition.version; " + supported}
	case !ok || version == "":
		return "", &Problem{Path: "$.ignition", Rule: "ignition-version", Message: "the config has no ignition.version that is a text; " + supported}
	case version == newer:
		head["version"] = machineconfig.Version
		return machineconfig.Version, nil
	case !slices.Contains(older, version) && !slices.Contains(oldest, version):
		return "", &Problem{Path: "$.ignition.version", Rule: "ignition-version", Message: fmt.Sprintf("Ignition version %q is not supported; %s", version, supported)}
	}
	return version, nil
}

func readV3(f flat) (Reading, []Problem) {
	cfg, rep, err := v35.ParseCompatibleVersion(f.json)
	problems := f.problems(rep)
	if err != nil && len(problems) == 0 {
		problems = append(problems, Problem{Path: "$", Rule: "ignition", Message: err.Error()})
	}
	return Reading{Config: cfg}, problems
}

// problems takes over what Ignition has to say. An unknown key is a typo whose effect would be missing on the node.
func (f flat) problems(rep report.Report) []Problem {
	var out []Problem
	textAt := f.textAt()
	for _, e := range rep.Entries {
		p := Problem{Path: e.Context.String(), Rule: "ignition", Message: message.Translate(e.Message, textAt(e.Context.String())), Warning: !e.Kind.IsFatal()}
		if line, _ := e.Marker.Start(); len(e.Context.Path) == 0 && line > 0 {
			p.Path = f.at(int(line))
		}
		if mistyped := f.mistyped(&ign.Config{}); len(e.Context.Path) == 0 && mistyped != nil {
			p = *mistyped
		}
		if key, unused := strings.CutPrefix(e.Message, "unused key "); unused {
			p = Problem{Path: p.Path, Rule: "unknown-key", Message: unknownKey(key)}
		}
		if p.Warning && (e.Kind == report.Info || strings.HasPrefix(e.Message, "setuid/setgid/sticky")) {
			continue // special modes are refused in every version, with all configs
		}
		out = append(out, p)
	}
	return out
}

func unknownKey(key string) string {
	return fmt.Sprintf("Ignition knows no key %q here, or not in the version that the config names; check its spelling and its place", key)
}

// mistyped finds a value of another type than its key's, and words it without quoting the value.
func (f flat) mistyped(into any) *Problem {
	var typed *json.UnmarshalTypeError
	if !errors.As(json.Unmarshal(f.json, into), &typed) {
		return nil
	}
	return &Problem{Path: f.atOffset(typed.Offset), Rule: "ignition", Message: fmt.Sprintf("%s stands here where %s belongs", article(typed.Value), belongs(typed.Type))}
}

// belongs words a type of Go's.
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

// article puts one before json's word for a value: `number -5` is a number.
func article(value string) string {
	word, _, _ := strings.Cut(value, " ")
	if strings.HasPrefix(word, "a") || strings.HasPrefix(word, "o") {
		return "an " + word
	}
	return "a " + word
}
