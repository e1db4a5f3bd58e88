package mcs

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/policy/secret"
)

// FuzzWithholdMarked: a body without secrets has nothing that users mark and no value that a rule masks, in whatever
// field of the config. It is valid Ignition, and withholding again takes nothing out of it.
func FuzzWithholdMarked(f *testing.F) {
	const head = `{"ignition":{"version":"3.5.0"},`
	for _, seed := range []struct{ config, marks string }{
		{`"storage":{"files":[{"path":"/etc/app/a.conf","contents":{"source":"data:,plain"}},{"path":"/etc/app/b/c","contents":{"source":"https://example.org/c"}},{"path":"/etc/apple"}]}}`, "/etc/app/"},
		{`"storage":{"files":[{"path":"/etc/a","append":[{"source":"data:,x"}]},{"path":"/etc/kubernetes/kubeconfig","contents":{"source":"data:,x"}}],"links":[{"path":"/etc/l","target":"/etc/a","hard":true}]}}`, "/etc/?, /etc/kubernetes/*"},
		{`"systemd":{"units":[{"name":"vault.service","contents":"[Unit]\n"},{"name":"app.service","dropins":[{"name":"a.conf","contents":"[Unit]\n"}]},{"name":"app@.service","enabled":true}]}}`, "vault.service app*.service"},
		{`"storage":{"filesystems":[{"device":"/dev/sdb","format":"xfs","path":"/var","mountOptions":["credentials=/etc/c","password=hunter22"],"options":["token=h7Gk2jd82kdj"]}]}}`, ""},
		{`"storage":{"luks":[{"name":"l","device":"/dev/sdb","options":["--password=hunter22"],"clevis":{"tang":[{"url":"https://me:hunter22@tang.example"}]}}]}}`, ""},
		{`"storage":{"raid":[{"name":"r","level":"raid1","devices":["/dev/sdb"],"options":["--token","h7Gk2jd82kdj"]}],"links":[{"path":"/l","target":"https://me:hunter22@a.example"}]}}`, ""},
		{`"passwd":{"users":[{"name":"core","gecos":"password: hunter22","sshAuthorizedKeys":["ssh-ed25519 AAAA https://me:hunter22@a.example"],"passwordHash":"$6$a$b"}]}}`, ""},
		{`"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:;base64,H4sIAAAAAAAA/ypILC4uzy9KsU0uTk0sMgIEAAD//8UyHyUQAAAA","compression":"gzip"}}]}}`, "/etc/"},
	} {
		f.Add([]byte(head+seed.config), seed.marks)
	}
	f.Fuzz(func(t *testing.T, config []byte, list string) {
		if len(config)+len(list) > 64<<10 {
			return
		}
		mc := rendered(string(config))
		mc.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: list}
		if _, err := Compose(Input{Rendered: mc}, Newest); err != nil {
			return
		}
		body, err := Compose(Input{Rendered: mc, Withhold: true}, Newest)
		var bound *FirstBootSecretsError
		if errors.As(err, &bound) {
			return
		}
		if err != nil {
			t.Fatalf("a config is served with its secrets, and not without: %v\n%s", err, config)
		}
		marks, _ := secret.ParsePaths(list) // as of an annotation that was set through the API
		left := decode(t, body.Head)
		for _, shown := range secretsIn(t, body.Head, marks) {
			t.Errorf("%s has a secret, in the body of\n%s", shown, config)
		}
		if _, more, bound := withhold(machineconfig.Config{Ignition: left}, marksOfConfig(marks)); len(more)+
			len(bound) > 0 {
			t.Errorf("withholding again takes out %q %q of\n%s", more, bound, config)
		}
	})
}

// marksOfConfig leaves out marks of the files that the server itself adds.
func marksOfConfig(marks secret.Paths) secret.Paths {
	return slices.DeleteFunc(slices.Clone(marks), func(m string) bool {
		one := secret.Paths{m}
		return one.Match(NodeAnnotationsPath) || one.Match(EncapsulatedPath)
	})
}

// secretsIn names the places of a body that are marked or hold a secret by the rules. It reads the JSON and knows only
// where contents are, so that no field is forgotten.
func secretsIn(t *testing.T, body []byte, marks secret.Paths) (found []string) {
	t.Helper()
	var whole any
	if err := json.Unmarshal(body, &whole); err != nil {
		t.Fatal(err)
	}
	served := decode(t, body)
	for _, file := range served.Storage.Files {
		if file.Path == NodeAnnotationsPath || file.Path == EncapsulatedPath {
			continue
		}
		for _, r := range append(file.Append, file.Contents) {
			data, err := machineconfig.Contents(r)
			if len(data) > 0 && marks.Match(file.Path) || err == nil && secret.Is(file.Path, string(data)) ||
				errors.Is(err, machineconfig.ErrNotInline) && marks.Match(file.Path) {
				found = append(found, "file "+file.Path)
			}
		}
	}
	for _, unit := range served.Systemd.Units {
		if marks.Match(unit.Name) && (unit.Contents != nil && *unit.Contents != "" || len(unit.Dropins) > 0) {
			found = append(found, "unit "+unit.Name)
		}
	}
	texts(whole, "$", func(at, text string) {
		if !strings.HasPrefix(text, "data:") && secret.Is("", text) {
			found = append(found, at+" "+text)
		}
	})
	return found
}

// texts calls a function with each text of a JSON value and with its place.
func texts(v any, at string, do func(at, text string)) {
	switch v := v.(type) {
	case string:
		do(at, v)
	case []any:
		for _, item := range v {
			texts(item, at+"[]", do)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			texts(v[key], at+"."+key, do)
		}
	}
}
