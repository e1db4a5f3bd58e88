package machineconfig_test

import (
	"strings"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

func TestStoredHash(t *testing.T) {
	hash := "sha512-" + strings.Repeat("0a", 64)
	if got, ok := machineconfig.StoredHash(machineconfig.StoredSource(hash)); !ok || got != hash {
		t.Errorf("the address of a hash names %q, %v", got, ok)
	}
	for why, source := range map[string]string{
		"upper case":          "https://content.bunsen.invalid/sha512-" + strings.Repeat("0A", 64),
		"another scheme":      "http://content.bunsen.invalid/" + hash,
		"another server":      "https://content.bunsen.example/" + hash,
		"a port":              "https://content.bunsen.invalid:443/" + hash,
		"a query":             "https://content.bunsen.invalid/" + hash + "?a=b",
		"a longer path":       "https://content.bunsen.invalid/../" + hash,
		"a short hash":        "https://content.bunsen.invalid/sha512-0a",
		"another hash":        "https://content.bunsen.invalid/sha256-" + strings.Repeat("0a", 32),
		"a line after it":     "https://content.bunsen.invalid/" + hash + "\n",
		"a name that is none": "https://content.bunsen.invalid/passwd",
	} {
		if got, ok := machineconfig.StoredHash(source); ok {
			t.Errorf("%s: it names %q", why, got)
		}
	}
}

func TestAddressesInTheDomainOfTheContentStore(t *testing.T) {
	hash, other := "sha512-"+strings.Repeat("0a", 64), "sha512-"+strings.Repeat("0b", 64)
	store := "https://content.bunsen.invalid/"
	for name, c := range map[string]struct {
		source, hash, compression, want string
	}{
		"a file of the content store":                     {store + hash, hash, "", ""},
		"an address with another hash than its own":       {store + hash, other, "", "must be " + hash},
		"a compressed file":                               {store + hash, hash, "gzip", "no compressed files"},
		"a name that is no hash":                          {store + "passwd", hash, "", "is not https://content.bunsen.invalid/sha512-HEX"},
		"upper case, which another reader may take as is": {"https://CONTENT.bunsen.invalid/" + hash, hash, "", "is not https://content.bunsen.invalid/sha512-HEX"},
		"the domain with a dot":                           {"https://content.bunsen.invalid./" + hash, hash, "", "is not https://content.bunsen.invalid/sha512-HEX"},
		"the domain without a certificate":                {"http://content.bunsen.invalid/" + hash, hash, "", "is not https://content.bunsen.invalid/sha512-HEX"},
	} {
		r := ign.Resource{Source: &c.source, Compression: &c.compression, Verification: ign.Verification{Hash: &c.hash}}
		_, _, err := machineconfig.RemoteOf(r)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, and not %q", name, err, c.want)
		}
	}
	if got := machineconfig.ShownAddress(store + hash); got != "the content store, sha512-0a0a0a0a0a0a…" {
		t.Errorf("people read %q", got)
	}
}

func TestAMachineResolvesAFileOfTheContentStore(t *testing.T) {
	hash, short := "sha512-"+strings.Repeat("0a", 64), "sha256-"+strings.Repeat("0b", 32)
	c := machineconfig.Config{HasIgnition: true}
	c.Ignition.Ignition.Version = machineconfig.Version
	c.Ignition.Storage.Files = []ign.File{{
		Node:          ign.Node{Path: "/opt/a"},
		FileEmbedded1: ign.FileEmbedded1{Contents: remote(machineconfig.StoredSource(hash), hash)},
	}}
	if bad := machineconfig.Check(c); len(bad) > 0 {
		t.Fatal(bad)
	}
	resolved := machineconfig.WithHashes(c, map[string]string{hash: short})
	if got := machineconfig.RemoteFiles(resolved); len(got) != 1 || got[0].Hash != short {
		t.Errorf("it resolves to %+v", got)
	}
	if bad := machineconfig.Check(resolved); len(bad) > 0 {
		t.Errorf("the machine refuses it: %v", bad)
	}
}
