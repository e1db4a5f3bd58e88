package machineconfig

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// specWith returns a spec with one file.
func specWith(source string) mcfgv1.MachineConfigSpec {
	text, _ := json.Marshal(source)
	return mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":%s}}]}}`, text)}}
}

// referencesOf returns the references of a spec, and the text that a node would get if each value were its reference in
// brackets.
func referencesOf(t *testing.T, spec mcfgv1.MachineConfigSpec) (references []SecretReference, text string,
	err error,
) {
	t.Helper()
	config, err := Parse(spec)
	if err != nil {
		return nil, "", err
	}
	files, err := SecretFilesOf(config)
	if err != nil || len(files) == 0 {
		return nil, "", err
	}
	out, err := files[0].Content.Expand(func(r SecretReference) ([]byte, error) {
		return []byte("<" + r.String() + ">"), nil
	})
	return files[0].Content.References(), string(out), err
}

// TestFactsInATemplate: the text of a template has the values of facts, and its references are those of the document.
func TestFactsInATemplate(t *testing.T) {
	facts := map[string]string{
		"name": "worker-1", "a": "192.0.2.1", "json": `"}{"`, "dollar": "$",
		"tail": "{secret:theirs/key}",
	}
	for text, want := range map[string]string{
		"a=${node.a} p=${secret:mine/key}":       "a=192.0.2.1 p=<secret:mine/key>",
		"${node.json}${secret:mine/key}":         `"}{"<secret:mine/key>`,
		"$${node.a} ${secret:mine/key}":          "${node.a} <secret:mine/key>",
		"$${secret:theirs/key} ${node.name}":     "${secret:theirs/key} worker-1",
		"$${${node.a}":                           "${192.0.2.1",
		"${node.tail}${secret:mine/key}":         "{secret:theirs/key}<secret:mine/key>",
		"$ ${node.tail}":                         "$ {secret:theirs/key}",
		"${node.dollar}{secret:theirs/key}":      "error: contains $",
		"${node.dollar}${node.tail}":             "error: contains $",
		"${node.dollar}${secret:mine/key}":       "error: contains $",
		"${node.none}${secret:mine/key}":         `error: no fact "none"`,
		"${node.!}${secret:mine/key}":            "error: no reference to a fact",
		"${node.a}\n$${node.!} ${secret:mine/k}": "192.0.2.1\n${node.!} <secret:mine/k>",
	} {
		out, err := ExpandFacts(specWith(TemplateURL(text)), facts)
		got := ""
		if err == nil {
			_, got, err = referencesOf(t, out)
		}
		if err != nil {
			if problem, isError := strings.CutPrefix(want, "error: "); !isError ||
				!strings.Contains(err.Error(), problem) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			continue
		}
		if got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestAFactCannotBecomeAReference: a source that is a fact, and an encrypted file with one, are refused.
func TestAFactCannotBecomeAReference(t *testing.T) {
	for source, problem := range map[string]string{
		"${node.a}": "became a reference",
		"${node.b}application/vnd.bunsen.template,${node.c}": "became a reference",
		"${node.d}": "",
		SOPSURL("yaml", []byte("a: ENC[${node.a}]\nsops: {}")): "an encrypted file cannot use facts",
		SOPSURL("yaml", []byte("a: ENC[x]\nsops: {}")):         "",
	} {
		_, err := ExpandFacts(specWith(source), map[string]string{
			"a": TemplateURL("${secret:theirs/key}"),
			"b": "data:", "c": "%24%7Bsecret:theirs/key%7D", "d": "data:,plain",
		})
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", source, err, problem)
		}
	}
}

// FuzzFactsCannotChangeReferences takes any template and any value: what Expand accepts has the references of the
// document.
func FuzzFactsCannotChangeReferences(f *testing.F) {
	f.Add("${node.a}${secret:mine/key}${node.b}", "$", "{secret:theirs/key}")
	f.Add("$${node.a}{secret:x/y}${node.b}", "a", "b")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		before := specWith(TemplateURL(text))
		had, _, err := referencesOf(t, before)
		if err != nil {
			return
		}
		after, err := ExpandFacts(before, map[string]string{"a": a, "b": b, NameFact: "worker-1"})
		if err != nil {
			return
		}
		has, _, err := referencesOf(t, after)
		if err != nil || fmt.Sprint(had) != fmt.Sprint(has) {
			t.Errorf("%q with %q and %q: %v became %v, %v", text, a, b, had, has, err)
		}
	})
}
