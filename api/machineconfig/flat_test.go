package machineconfig_test

import (
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
	return fmt.Sprintf(`{"ignition":{"version":"3.5.0","config":{%s}},"storage":{"files":[%s]}}`, config, strings.Join(files, ","))
}

func source(text string) string {
	return fmt.Sprintf(`{"source":%q}`, "data:,"+dataurl.EscapeString(text))
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
	for sentence, c := range map[string]struct{ config, want string }{
		"nothing named": {naming("a", "", "/1"), "/1=a"},
		"what is merged wins over what merges it":      {naming("a", merging(naming("b", "", "/2", "/3")), "/1", "/2"), "/1=a /2=b /3=b"},
		"of two that are merged, the later one wins":   {naming("a", merging(naming("b", "", "/1", "/2"), naming("c", "", "/2")), "/1"), "/1=b /2=c"},
		"a replacement stands for all":                 {naming("a", `"replace":`+source(naming("b", "", "/2")), "/1"), "/2=b"},
		"configs in configs in configs":                {naming("a", merging(naming("b", merging(naming("c", "", "/3")), "/2")), "/1"), "/1=a /2=b /3=c"},
		"an older version in a newer one":              {naming("a", merging(`{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/2","contents":{"source":"data:,b"}}]}}`), "/1"), "/1=a /2=b"},
		"one that is not inline leaves all as written": {naming("a", `"merge":[`+source(naming("b", "", "/2"))+`,{"source":"https://example.org/c"}]`, "/1"), "/1=a + 2 named"},
		"one that is no config":                        {naming("a", merging(`{}`)), "error: ignition.config.merge[0]: config has no ignition.version"},
		"one that is invalid, in another":              {naming("a", merging(naming("b", merging(naming("c", "", "relative"))))), "error: ignition.config.merge[0]: ignition.config.merge[0]: files[0] relative"},
		"what does not fit together":                   {naming("a", merging(`{"ignition":{"version":"3.5.0"},"storage":{"links":[{"path":"/1","target":"/x"}]}}`), "/1/2"), "error: merging what ignition.config names"},
		"without end":                                  {deep, "error: ignition.config.merge[0]"},
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
			if n := len(flat.Ignition.Ignition.Config.Merge); n > 0 {
				got += fmt.Sprintf("+ %d named", n)
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
