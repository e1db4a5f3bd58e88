package git

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source"
)

func address(t testing.TB, url string) source.Address {
	t.Helper()
	a, err := source.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestWhereASubmoduleIs: the table has the repository, the url of the entry, and the address or a part of the reason to
// refuse it.
func TestWhereASubmoduleIs(t *testing.T) {
	const web, ssh, scp = "https://git.example.org:8443/team/config.git", "ssh://git@git.example.org/team/config.git",
		"git@git.example.org:team/config.git"
	for _, c := range []struct{ parent, url, want string }{
		{web, "https://git.example.org:8443/other/lib.git", "https://git.example.org:8443/other/lib.git"},
		{web, "https://GIT.example.org:8443/other/lib.git", "https://GIT.example.org:8443/other/lib.git"},
		{web, "../lib.git", "https://git.example.org:8443/team/lib.git"},
		{web, "../../other/lib", "https://git.example.org:8443/other/lib"},
		{web, "./lib", "https://git.example.org:8443/team/config.git/lib"},
		{ssh, "../lib.git", "ssh://git@git.example.org/team/lib.git"},
		{ssh, "ssh://git.example.org/lib.git", "ssh://git@git.example.org/lib.git"},
		{scp, "../lib.git", "git@git.example.org:team/lib.git"},
		{scp, "git@git.example.org:lib.git", "git@git.example.org:lib.git"},

		{web, "https://git.example.org/other/lib.git", "another scheme, host or port"},
		{web, "http://git.example.org:8443/other/lib.git", "another scheme, host or port"},
		{web, "https://git.example.org.evil.org:8443/lib.git", "another scheme, host or port"},
		{web, "https://169.254.169.254/latest", "another scheme, host or port"},
		{web, "ssh://git@git.example.org:8443/lib.git", "another scheme, host or port"},
		{web, "https://someone:hunter2@git.example.org:8443/lib.git", "a password"},
		{web, "https://someone@git.example.org:8443/lib.git", "a user"},
		{web, "../../../lib.git", "out of the host"},
		{web, "../../../../../etc/passwd", "out of the host"},
		{web, "../..", "the root of the host"},
		{web, "../lib.git?x=y", "a character that is not allowed"},
		{web, "../%2e%2e/lib.git", "a character that is not allowed"},
		{web, "../lib.git\x7f", "a character that is not allowed"},
		{web, "../lib.git\u0085", "a character that is not allowed"},
		{web, "/etc/shadow", "another scheme, host or port"},
		{web, "file:///etc/shadow", "another scheme, host or port"},
		{web, "ext::sh -c touch% /tmp/x", "no address of a repository"},
		{web, "-u./payload", "no address of a repository"},
		{web, "--upload-pack=touch /tmp/x", "no address of a repository"},
		{web, "oci://git.example.org:8443/lib", "another scheme, host or port"},
		{web, "", "no url"},
		{ssh, "ssh://root@git.example.org/lib.git", "another user"},
		{ssh, "root@git.example.org:lib.git", "another user"},
		{ssh, "ssh://git@-oProxyCommand=x/lib.git", ""},
	} {
		got, err := Modules{"lib": {c.url}}.Address(address(t, c.parent), "lib")
		text := got.String()
		if err != nil {
			text = err.Error()
		}
		if (err == nil) != strings.Contains(strings.ToLower(c.want), "git.example.org") ||
			!strings.Contains(text, c.want) || strings.Contains(text, "hunter2") {
			t.Errorf("%s with %q: got %q, want %q", c.parent, c.url, text, c.want)
		}
	}
}

// TestEntriesOfTheFile: an entry belongs to the path that it names, and each path has one entry.
func TestEntriesOfTheFile(t *testing.T) {
	const parent = "https://git.example.org/team/config.git"
	for name, c := range map[string]struct{ file, path, want string }{
		"an entry": {
			"[submodule \"x\"]\n\tpath = lib\n\turl = ../lib.git\n", "lib",
			"https://git.example.org/team/lib.git",
		},
		"a name that leads elsewhere": {
			"[submodule \"../../hooks\"]\n\tpath = lib\n\turl = ../lib.git\n", "lib",
			"no entry",
		},
		"no entry": {"[submodule \"x\"]\n\tpath = other\n\turl = ../lib.git\n", "lib", "no entry"},
		"the path of a parent folder": {
			"[submodule \"x\"]\n\tpath = lib/../lib\n\turl = ../lib.git\n", "lib",
			"no entry",
		},
		"two entries":                   {"[submodule \"x\"]\n\tpath = lib\n\turl = ../a\n[submodule \"y\"]\n\tpath = lib\n\turl = ../b\n", "lib", "2 entries"},
		"no url":                        {"[submodule \"x\"]\n\tpath = lib\n", "lib", "no url"},
		"an update command is not used": {"[submodule \"x\"]\n\tpath = lib\n\turl = ../lib.git\n\tupdate = !touch /tmp/x\n", "lib", "https://git.example.org/team/lib.git"},
		"not a file of git":             {"[submodule \"x\"\n", "lib", "reading .gitmodules"},
		"too large":                     {strings.Repeat("#", MaxModulesBytes+1), "lib", "at most 65536"},
	} {
		modules, err := ParseModules([]byte(c.file))
		var got source.Address
		if err == nil {
			got, err = modules.Address(address(t, parent), c.path)
		}
		text := got.String()
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: got %q, want %q", name, text, c.want)
		}
	}
}

// FuzzAddress: whatever a file says, a submodule is at the host of its repository, and the error has no password.
func FuzzAddress(f *testing.F) {
	f.Add("[submodule \"x\"]\n\tpath = lib\n\turl = ../lib.git\n")
	f.Add("[submodule \"x\"]\n\tpath = lib\n\turl = https://git.example.org/a\n")
	f.Add("[submodule \"x\"]\n\tpath = lib\n\turl = \\\n ../..//./a\n")
	f.Fuzz(func(t *testing.T, file string) {
		modules, err := ParseModules([]byte(file))
		if err != nil {
			return
		}
		for _, url := range []string{"https://git.example.org/team/config.git", "git@git.example.org:config.git"} {
			parent := address(t, url)
			for at := range modules {
				a, err := modules.Address(parent, at)
				if err != nil {
					continue
				}
				again, err := source.ParseURL(a.String())
				if err != nil || !strings.EqualFold(again.Host, parent.Host) || again.Scheme != parent.Scheme ||
					again.Port != parent.Port || a.Password != "" {
					t.Fatalf("%q leads to %q (%v)", file, a.String(), err)
				}
			}
		}
	})
}
