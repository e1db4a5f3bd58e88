package machineconfig

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// TestWhatAReferenceIs has texts of commits.
func TestWhatAReferenceIs(t *testing.T) {
	for text, problem := range map[string]string{
		"secret:registry/pull":              "",
		"configmap:site.prod/ntp_servers.1": "",
		"secret:registry":                   "no valid key",
		"secret:/pull":                      "no valid name",
		"secret:a/b/c":                      "no valid key",
		"secret:../etc/passwd":              "no valid name",
		"secret:Registry/pull":              "no valid name",
		"secret:-a/b":                       "no valid name",
		"secret:a/b ":                       "no valid key",
		"secret:a/b\n":                      "no valid key",
		"Secret:a/b":                        "no reference",
		"https://example.com/a":             "no reference",
		"":                                  "no reference",
		"secret:" + strings.Repeat("a", 254) + "/b": "no valid name",
		"secret:a/" + strings.Repeat("b", 254):      "no valid key",
	} {
		r, err := ParseSecret(text)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: error %v, want one with %q", text, err, problem)
		}
		if err == nil && r.String() != text {
			t.Errorf("%q reads back as %q", text, r)
		}
	}
}

// TestExpandingTemplates has templates, the values of which are the references in angle brackets.
func TestExpandingTemplates(t *testing.T) {
	value := func(r SecretReference) ([]byte, error) { return []byte("<" + r.String() + ">"), nil }
	for text, want := range map[string]string{
		"":                                      "",
		"no placeholder, $HOME and $(date)":     "no placeholder, $HOME and $(date)",
		"${secret:a/b}":                         "<secret:a/b>",
		"${secret:a/b}${configmap:c/d}":         "<secret:a/b><configmap:c/d>",
		"password=${secret:a/b}\nuser=x\n":      "password=<secret:a/b>\nuser=x\n",
		"a shell's $${HOME} and $${secret:a/b}": "a shell's ${HOME} and ${secret:a/b}",
		"$${${secret:a/b}":                      "${<secret:a/b>",
		"$$${HOME}":                             "$${HOME}",
	} {
		c, err := SecretTemplate(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := c.Expand(value); err != nil || string(got) != want {
			t.Errorf("%q expands to %q, %v; want %q", text, got, err, want)
		}
	}
	for text, problem := range map[string]string{
		"a\nb ${HOME}":              `line 2: ${HOME}: "HOME" is no reference`,
		"${secret:a/b":              "line 1: ${ has no end",
		"${secret:a/${secret:b/c}}": `line 1: ${secret:a/${secret:b/c}`,
		"${}":                       "line 1",
	} {
		if _, err := SecretTemplate(text); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: error %v, want one with %q", text, err, problem)
		}
	}
}

// TestAValueIsNoTemplate expands once: what a value contains is not read as a placeholder, and errors do not contain
// it.
func TestAValueIsNoTemplate(t *testing.T) {
	c, err := SecretTemplate("${secret:a/b} ${secret:c/d}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Expand(func(r SecretReference) ([]byte, error) { return []byte("${secret:c/d}"), nil })
	if err != nil || string(got) != "${secret:c/d} ${secret:c/d}" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = c.Expand(func(r SecretReference) ([]byte, error) {
		if r.Name == "a" {
			return []byte("hush"), nil
		}
		return nil, errors.New("no such Secret")
	})
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("error %v", err)
	}
}

func source(url string) ign.Resource { return ign.Resource{Source: &url} }

// TestWhatIsUnresolved has sources of a config as an attacker could spell them.
func TestWhatIsUnresolved(t *testing.T) {
	for _, c := range []struct {
		url        string
		unresolved bool
		problem    string
	}{
		{"data:,secret", false, ""},
		{"data:text/plain;charset=utf-8,${secret:a/b}", false, ""},
		{TemplateURL("${secret:a/b}\n"), true, ""},
		{SOPSURL("yaml", []byte("a: ENC[...]")), true, ""},
		{"DATA:application/vnd.bunsen.template,x", true, "only data: sources"},
		{"data:Application/vnd.bunsen.template,x", true, "media type"},
		{"data:application/vnd.bunsen.other,x", true, "media type"},
		{"data:application/vnd.bunsen.template;charset=utf-8,x", true, "media type"},
		{"data:application/vnd.bunsen.sops;format=toml,x", true, "media type"},
		{"data:application/vnd.bunsen.sops,x", true, "media type"},
		{TemplateURL("${secret:a}"), true, "no valid key"},
	} {
		_, unresolved, err := SecretsOf(source(c.url))
		if unresolved != c.unresolved || (err == nil) != (c.problem == "") || err != nil &&
			!strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %t, %v; want %t and an error with %q", c.url, unresolved, err, c.unresolved, c.problem)
		}
	}
	hash := "sha512-" + strings.Repeat("0", 128)
	r := source(TemplateURL("x"))
	r.Verification.Hash = &hash
	if _, _, err := SecretsOf(r); err == nil || !strings.Contains(err.Error(), "remove the hash") {
		t.Errorf("a template with a hash: %v", err)
	}
}

// TestResolving puts contents in place of references, and leaves the caller's config alone.
func TestResolving(t *testing.T) {
	var c Config
	for path, url := range map[string]string{"/etc/a": TemplateURL("${secret:a/b}"), "/etc/plain": "data:,plain"} {
		f := ign.File{}
		f.Path, f.Contents = path, source(url)
		c.Ignition.Storage.Files = append(c.Ignition.Storage.Files, f)
	}
	if files, err := SecretFiles(c); err != nil || len(files) != 1 || files[0].Path != "/etc/a" {
		t.Fatalf("%v, %v", files, err)
	}
	before := fmt.Sprint(*c.Ignition.Storage.Files[0].Contents.Source, *c.Ignition.Storage.Files[1].Contents.Source)
	got, err := ResolveSecrets(c, map[string][]byte{"/etc/a": []byte("value\x00")})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Ignition.Storage.Files {
		data, err := Contents(f.Contents)
		if want := map[string]string{"/etc/a": "value\x00", "/etc/plain": "plain"}[f.Path]; err != nil ||
			string(data) != want {
			t.Errorf("%s has %q, %v", f.Path, data, err)
		}
	}
	if after := fmt.Sprint(*c.Ignition.Storage.Files[0].Contents.Source,
		*c.Ignition.Storage.Files[1].Contents.Source); after != before {
		t.Error("the caller's config changed")
	}
	if _, err := ResolveSecrets(c, nil); err == nil || !strings.Contains(err.Error(), "/etc/a") {
		t.Errorf("without contents: %v", err)
	}
}

// TestOnlyContentsOfFilesAreResolved has references in each other resource of a config.
func TestOnlyContentsOfFilesAreResolved(t *testing.T) {
	r := source(TemplateURL("${secret:a/b}"))
	var c Config
	f := ign.File{}
	f.Path, f.Append = "/etc/a", []ign.Resource{r}
	c.Ignition.Storage.Files = []ign.File{f}
	c.Ignition.Storage.Luks = []ign.Luks{{Name: "root", KeyFile: r}}
	c.Ignition.Ignition.Security.TLS.CertificateAuthorities = []ign.Resource{r}
	c.Ignition.Ignition.Config.Merge, c.Ignition.Ignition.Config.Replace = []ign.Resource{r}, r
	_, err := SecretFiles(c)
	for _, place := range []string{
		"/etc/a: append[0]", "luks root", "certificateAuthorities[0]", "config.merge[0]",
		"config.replace",
	} {
		if err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("%s is missing in %v", place, err)
		}
	}
}

// FuzzTemplate expands any text: a text without ${ is itself, and a template of a value gives the value.
func FuzzTemplate(f *testing.F) {
	f.Add("a ${secret:a/b} $${c}", []byte("v"))
	f.Fuzz(func(t *testing.T, text string, value []byte) {
		c, err := SecretTemplate(text)
		if err != nil {
			return
		}
		got, err := c.Expand(func(SecretReference) ([]byte, error) { return value, nil })
		if err != nil || !strings.Contains(text, "${") && string(got) != text {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
		again, unresolved, err := SecretsOf(source(TemplateURL(text)))
		if err != nil || !unresolved || again.Template != text {
			t.Errorf("%q reads back as %q, %t, %v", text, again.Template, unresolved, err)
		}
		one, err := SecretTemplate("${secret:a/b}")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := one.Expand(func(SecretReference) ([]byte, error) { return value, nil }); err != nil ||
			!bytes.Equal(got, value) {
			t.Errorf("%q, %v", got, err)
		}
	})
}
