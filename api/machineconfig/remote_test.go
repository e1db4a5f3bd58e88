package machineconfig_test

import (
	"strings"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// remote returns a resource with an address and a hash.
func remote(source, hash string) ign.Resource {
	return ign.Resource{Source: &source, Verification: ign.Verification{Hash: &hash}}
}

func TestContentsAreComparedByTheirHash(t *testing.T) {
	const hello = "sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	inline := "data:,hello"
	for says, c := range map[string]struct {
		a, b ign.Resource
		same bool
	}{
		"another address of the same contents": {remote("https://a/x", hello), remote("http://b/y?z", hello), true},
		"a hash in upper case":                 {remote("https://a/x", hello), remote("https://a/x", "sha256-"+strings.ToUpper(hello[7:])), true},
		"the same address with another hash":   {remote("https://a/x", hello), remote("https://a/x", "sha256-"+strings.Repeat("1", 64)), false},
		"contents that moved out of the file":  {ign.Resource{Source: &inline}, remote("https://a/x", hello), true},
		"contents that moved into the file":    {remote("https://a/x", hello), ign.Resource{Source: &inline}, true},
		"other contents in the file":           {remote("https://a/x", "sha256-"+strings.Repeat("1", 64)), ign.Resource{Source: &inline}, false},
		"an address without a hash":            {ign.Resource{Source: remote("https://a/x", hello).Source}, remote("https://a/x", hello), false},
	} {
		t.Run(says, func(t *testing.T) {
			if got := machineconfig.SameContents(c.a, c.b); got != c.same {
				t.Errorf("they are the same: %t, want %t", got, c.same)
			}
		})
	}
}

func TestAnAddressIsShownWithoutWhatMayBeSecret(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/a.raw":                  "https://example.com/a.raw",
		"https://example.com:8443/a?token=geheim":    "https://example.com:8443/a?…",
		"https://user:geheim@example.com/a#fragment": "https://example.com/a",
		"https://example.com/%7ea?x":                 "https://example.com/%7ea?…",
		"://geheim":                                  "an invalid address",
	} {
		if got := machineconfig.ShownAddress(address); got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}

func TestHashesNameTheSameContents(t *testing.T) {
	long, short := "sha512-"+strings.Repeat("a", 128), "sha256-"+strings.Repeat("b", 64)
	c := machineconfig.Config{}
	c.Ignition.Storage.Files = []ign.File{
		{Node: ign.Node{Path: "/a"}, FileEmbedded1: ign.FileEmbedded1{Contents: remote("https://a/x", "sha512-"+strings.ToUpper(long[7:]))}},
		{Node: ign.Node{Path: "/b"}, FileEmbedded1: ign.FileEmbedded1{Contents: remote("https://a/y", short)}},
	}
	got := machineconfig.RemoteFiles(machineconfig.WithHashes(c, map[string]string{long: short}))
	if len(got) != 2 || got[0].Hash != short || got[1].Hash != short {
		t.Errorf("they are %+v", got)
	}
	if was := machineconfig.RemoteFiles(c); was[0].Hash != long {
		t.Errorf("the caller's config has %+v", was)
	}
}
