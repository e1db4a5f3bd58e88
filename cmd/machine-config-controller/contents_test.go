package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFlagsOfTheContentRegistry(t *testing.T) {
	file := func(name, text string) string {
		at := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	const repository = "registry.example.com/bunsen/content"
	for sentence, c := range map[string]struct {
		flags contentFlags
		want  string
	}{
		"without the flag":            {contentFlags{}, ""},
		"a repository":                {contentFlags{registry: repository}, ""},
		"a port":                      {contentFlags{registry: "registry.example.com:5000/content"}, ""},
		"credentials":                 {contentFlags{registry: repository, credentials: file("config.json", `{"auths": {}}`)}, ""},
		"a scheme":                    {contentFlags{registry: "https://" + repository}, "it is a repository such as"},
		"a password":                  {contentFlags{registry: "robot:geheim@" + repository}, "it is a repository such as"},
		"a tag":                       {contentFlags{registry: repository + ":v1"}, "it is a repository such as"},
		"a registry alone":            {contentFlags{registry: "registry.example.com"}, "it is a repository such as"},
		"credentials for nothing":     {contentFlags{credentials: "a"}, "need --content-registry"},
		"no credentials in the file":  {contentFlags{registry: repository, credentials: file("config.json", "geheim")}, "is not JSON"},
		"credentials that are away":   {contentFlags{registry: repository, credentials: "/does/not/exist"}, "reading --content-registry-credentials"},
		"a CA that is away":           {contentFlags{registry: repository, ca: "/does/not/exist"}, "reading --content-registry-ca"},
		"a CA that is no certificate": {contentFlags{registry: repository, ca: file("ca.crt", "geheim")}, "reading --content-registry-ca"},
	} {
		got, err := c.flags.open()
		if (got != nil) != (c.want == "" && c.flags.registry != "") || (err == nil) != (c.want == "") || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", sentence, got, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: the error has the file: %v", sentence, err)
		}
	}
}
