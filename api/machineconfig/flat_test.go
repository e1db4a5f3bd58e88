package machineconfig_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/vincent-petithory/dataurl"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// naming writes a config that names others, and a file at each path with the config's own name as its contents.
func naming(own, config string, paths ...string) string {
	var files []string
	for _, p := range paths {
		files = append(files, fmt.Sprintf(`{"path":%q,"contents":{"source":"data:,%s"}}`, p, own))
	}
	return fmt.Sprintf(`{"ignition":{"version":"3.5.0","config":{%s}},"storage":{"files":[%s]}}`, config,
		strings.Join(files, ","))
}

func source(text string) string {
	return fmt.Sprintf(`{"source":%q}`, "data:,"+dataurl.EscapeString(text))
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // a buffer takes all
	_ = w.Close()
	return fmt.Sprintf(`{"source":"data:;base64,%s","compression":"gzip"}`,
		base64.StdEncoding.EncodeToString(b.Bytes()))
}

func hashed(text, of string) string {
	return strings.TrimSuffix(source(text), "}") + fmt.Sprintf(`,"verification":{"hash":"sha256-%x"}}`,
		sha256.Sum256([]byte(of)))
}

func merging(texts ...string) string {
	var sources []string
	for _, t := range texts {
		sources = append(sources, source(t))
	}
	return `"merge":[` + strings.Join(sources, ",") + `]`
}

func parsed(t *testing.T, config string) machineconfig.Config {
	t.Helper()
	c, err := machineconfig.Parse(spec(config))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAFlatConfigHasWhatItNames(t *testing.T) {
	deep := `{"ignition":{"version":"3.0.0"}}`
	for range 12 {
		deep = naming("n", merging(deep))
	}
	many := make([]string, 101)
	for i := range many {
		many[i] = naming("b", "") + strings.Repeat(" ", i)
	}
	for sentence, c := range map[string]struct{ config, want string }{
		"nothing named": {naming("a", "", "/1"), "/1=a"},
		"what is merged wins over what merges it":      {naming("a", merging(naming("b", "", "/2", "/3")), "/1", "/2"), "/1=a /2=b /3=b"},
		"of two that are merged, the later one wins":   {naming("a", merging(naming("b", "", "/1", "/2"), naming("c", "", "/2")), "/1"), "/1=b /2=c"},
		"a replacement stands for all":                 {naming("a", `"replace":`+source(naming("b", "", "/2")), "/1"), "/2=b"},
		"configs in configs in configs":                {naming("a", merging(naming("b", merging(naming("c", "", "/3")), "/2")), "/1"), "/1=a /2=b /3=c"},
		"an older version in a newer one":              {naming("a", merging(`{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/2","contents":{"source":"data:,b"}}]}}`), "/1"), "/1=a /2=b"},
		"one that is not inline, which nobody fetches": {naming("a", `"merge":[`+source(naming("b", "", "/2"))+`,{"source":"https://example.org/c"}]`, "/1"), "error: ignition.config.merge[1]: its contents are not in the config"},
		"a replacement that is not inline":             {naming("a", `"replace":{"source":"https://example.org/c"}`, "/1"), "error: ignition.config.replace: its contents are not in the config"},
		"one that is compressed":                       {naming("a", `"merge":[`+zipped(naming("b", "", "/2"))+`]`, "/1"), "/1=a /2=b"},
		"one that matches its hash":                    {naming("a", `"merge":[`+hashed(naming("b", "", "/2"), naming("b", "", "/2"))+`]`, "/1"), "/1=a /2=b"},
		"one that does not match its hash":             {naming("a", `"merge":[`+hashed(naming("b", "", "/2"), "other")+`]`, "/1"), "error: ignition.config.merge[0]: verification hash does not match"},
		"one that is no config":                        {naming("a", merging(`{}`)), "error: ignition.config.merge[0]: config has no ignition.version"},
		"one of a list where an item should be":        {naming("a", merging(`{"ignition":{"version":"3.4.0"},"storage":[[[[`)), "error: ignition.config.merge[0]: reading config as JSON"},
		"one of version 2":                             {naming("a", merging(`{"ignition":{"version":"2.2.0"}}`)), `error: ignition.config.merge[0]: ignition.version "2.2.0" is not supported`},
		"one of a version that comes later":            {naming("a", merging(`{"ignition":{"version":"3.6.0"}}`)), `error: ignition.config.merge[0]: ignition.version "3.6.0" is not supported`},
		"one that is invalid, in another":              {naming("a", merging(naming("b", merging(naming("c", "", "relative"))))), "error: ignition.config.merge[0]: ignition.config.merge[0]: files[0] relative"},
		"all that is wrong with two":                   {naming("a", merging(naming("b", "", "relative", "other")+" ", "{}")), "error: ignition.config.merge[0]: files[0] relative path: path not absolute\nignition.config.merge[0]: files[1] other path: path not absolute\nignition.config.merge[1]: config has no"},
		"what does not fit together":                   {naming("a", merging(`{"ignition":{"version":"3.5.0"},"storage":{"links":[{"path":"/1","target":"/x"}]}}`), "/1/2"), "error: ignition.config: merging the configs that it names: "},
		"without end":                                  {deep, "error: ignition.config.merge[0]"},
		"too many":                                     {naming("a", merging(many...)), "error: ignition.config.merge[100]: the config names more than 100 configs"},
		"too large when they are decompressed":         {naming("a", `"merge":[`+zipped(naming("b", "", "/2")+strings.Repeat(" ", 5<<20))+`,`+zipped(naming("b", "", "/3")+strings.Repeat(" ", 5<<20))+`]`), "error: ignition.config.merge[1]: unpacking gzip: it has more than 2 MiB"},
	} {
		t.Run(sentence, func(t *testing.T) {
			config := parsed(t, c.config)
			before, err := config.IgnitionJSON()
			if err != nil {
				t.Fatal(err)
			}
			flat, err := machineconfig.Flat(config)
			got := ""
			for _, f := range flat.Ignition.Storage.Files {
				got += f.Path + "=" + strings.TrimPrefix(*f.Contents.Source, "data:,") + " "
			}
			if err != nil {
				got = "error: " + err.Error()
			}
			if !strings.HasPrefix(strings.TrimSpace(got), c.want) || err == nil && strings.TrimSpace(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if after, err := config.IgnitionJSON(); err != nil || string(after) != string(before) {
				t.Errorf("the config itself has changed: %s, %v", after, err)
			}
		})
	}
}

// TestCheckLooksIntoWhatAConfigMerges: what Check refuses in a config, it refuses in one that the config merges or
// takes in its place, and in what they give together.
func TestCheckLooksIntoWhatAConfigMerges(t *testing.T) {
	const head = `{"ignition":{"version":"3.5.0"},`
	for sentence, body := range map[string]string{
		"a setuid file":                     `"storage":{"files":[{"path":"/usr/local/bin/x","mode":2541}]}}`,
		"a drop-in outside of its folder":   `"systemd":{"units":[{"name":"x.service","dropins":[{"name":"../../../../root/x.conf","contents":"[Unit]\n"}]}]}}`,
		"a unit outside of its folder":      `"systemd":{"units":[{"name":"../../cron.d/x.service","contents":"[Unit]\n"}]}}`,
		"a user that forges a line":         `"passwd":{"users":[{"name":"root\nx:0"}]}}`,
		"a file from another place":         `"storage":{"files":[{"path":"/a","contents":{"source":"https://example.org/a"}}]}}`,
		"a file that does not match a hash": `"storage":{"files":[{"path":"/a","contents":{"source":"data:,a","verification":{"hash":"sha256-00000000000000000000000000000000000000000000000000000000000000ff"}}}]}}`,
	} {
		t.Run(sentence, func(t *testing.T) {
			for place, config := range map[string]string{
				"ignition.config.merge[0]: ": naming("a", merging(head+body)),
				"ignition.config.merge[1]: ": naming("a", `"merge":[`+source(naming("b", ""))+`,`+zipped(naming("b", merging(head+body)))+`]`),
				"ignition.config.replace: ":  naming("a", `"replace":`+source(head+body)),
			} {
				bad := machineconfig.Check(parsed(t, config))
				if len(bad) != 1 || !strings.HasPrefix(bad[0].Error(), place) {
					t.Errorf("%s%v", place, bad)
				}
			}
		})
	}
	together := `{"ignition":{"version":"3.5.0","config":{` +
		merging(head+`"storage":{"files":[{"path":"/a","contents":{"source":"data:,b"}}]}}`) +
		`}},"storage":{"files":[{"path":"/a","contents":` + hashed("a", "a") + `}]}}`
	if bad := machineconfig.Check(parsed(t, together)); len(bad) != 1 || !strings.HasPrefix(bad[0].Error(),
		"ignition.config: merging its configs: files[0] /a contents: verification hash") {
		t.Error(bad)
	}
	if bad := machineconfig.Check(parsed(t, naming("a", merging(naming("b", "", "/a")), "/b"))); len(bad) > 0 {
		t.Error(bad)
	}
}
