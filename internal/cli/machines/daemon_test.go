package machines

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcs/join"
)

func TestHowAMachineGetsTheDaemon(t *testing.T) {
	amd, both := []string{"amd64"}, []string{"amd64", "arm64"}
	for because, c := range map[string]struct {
		flags   Daemon
		offered [][]string
		// want is the architecture or the URL; "" is none.
		want, problem string
	}{
		"the servers have one":               {Daemon{from: "auto"}, [][]string{amd, amd}, "amd64", ""},
		"no cluster was asked":               {Daemon{from: "auto"}, nil, "", ""},
		"no server runs":                     {Daemon{from: "auto"}, [][]string{}, "", ""},
		"one of them is older":               {Daemon{from: "auto"}, [][]string{amd, nil}, "", ""},
		"none, though they have it":          {Daemon{from: "none"}, [][]string{amd}, "", ""},
		"two architectures":                  {Daemon{from: "auto"}, [][]string{both}, "", "--daemon-arch"},
		"two architectures, one is named":    {Daemon{from: "auto", arch: "arm64"}, [][]string{both, both}, "arm64", ""},
		"another architecture than theirs":   {Daemon{from: "server", arch: "arm64"}, [][]string{amd}, "", "not every machine-config-server has the daemon for arm64"},
		"it must be there":                   {Daemon{from: "server"}, [][]string{nil}, "", "start the servers with --daemon FILE"},
		"from a server that was not asked":   {Daemon{from: "server"}, nil, "", "needs --daemon-arch"},
		"from a server that is told to have": {Daemon{from: "server", arch: "amd64"}, nil, "amd64", ""},
		"from elsewhere":                     {Daemon{from: "auto", url: "https://x/y", sha512: "00"}, [][]string{amd}, "https://x/y", ""},
		"another word":                       {Daemon{from: "maybe"}, nil, "", "want auto, server or none"},
	} {
		t.Run(because, func(t *testing.T) {
			got, err := c.flags.choose(c.offered)
			if (err != nil) != (c.problem != "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Fatalf("%v, want %q", err, c.problem)
			}
			if got == nil {
				got = &join.Daemon{}
			}
			if is := got.URL + got.Arch; is != c.want {
				t.Errorf("it is %q, want %q", is, c.want)
			}
		})
	}
}
