package systemd

import (
	"strings"
	"testing"
)

// TestAnInstallSectionIsTheSymlinksThatSystemctlMakes needs no systemd; test/lab/host tries the same beside systemctl.
func TestAnInstallSectionIsTheSymlinksThatSystemctlMakes(t *testing.T) {
	for says, c := range map[string]struct{ unit, install, links, err string }{
		"a target wants it":                 {unit: "a.service", install: "WantedBy=x.target", links: "x.target.wants/a.service"},
		"every kind of line":                {unit: "a.service", install: "WantedBy=x.target\nRequiredBy=y.target\nUpheldBy=z.target\nAlias=b.service", links: "x.target.wants/a.service y.target.requires/a.service z.target.upholds/a.service b.service"},
		"lines that make none":              {unit: "a.service", install: "Also=a.socket\nDefaultInstance=x"},
		"an instance":                       {unit: "t@one.service", install: "WantedBy=%i.target", links: "one.target.wants/t@one.service"},
		"an instance known by another name": {unit: "t@one.service", install: "Alias=u@.service", links: "u@one.service"},
		"that name may be written out":      {unit: "t@one.service", install: "Alias=u@one.service", links: "u@one.service"},
		"what depends on the name":          {unit: "a-b@i.service", install: "WantedBy=%N_%p_%j_%n.target", links: "a-b@i_a-b_b_a-b@i.service.target.wants/a-b@i.service"},
		"its own name is no alias":          {unit: "a.service", install: "Alias=a.service"},
		"the old way to write WantedBy":     {unit: "a.service", install: "Alias=x.target.wants/a.service", links: "x.target.wants/a.service"},
		"a template wanted by a template":   {unit: "t@.service", install: "WantedBy=u@.target", links: "u@.target.wants/t@.service"},
		"a template wanted by a unit":       {unit: "t@.service", install: "WantedBy=x.target", err: "name the instance"},
		"an alias of another type":          {unit: "a.service", install: "Alias=a.socket", err: "of another kind"},
		"an alias of another instance":      {unit: "t@one.service", install: "Alias=u@two.service", err: "of another kind"},
		"a plain alias of an instance":      {unit: "t@one.service", install: "Alias=u.service", err: "of another kind"},
		"an instance as an alias of a unit": {unit: "a.service", install: "Alias=t@one.service", err: "of another kind"},
		"a way out":                         {unit: "a.service", install: "WantedBy=../x.target", err: "is no name of a unit"},
		"a way out by an alias":             {unit: "a.service", install: "Alias=../../evil.wants/a.service", err: "is no name of a unit"},
		"no name of a unit":                 {unit: "a.service", install: "WantedBy=x", err: "is no name of a unit"},
		"nothing before the type":           {unit: "a.service", install: "WantedBy=.target", err: "is no name of a unit"},
		"what depends on the machine":       {unit: "a.service", install: "WantedBy=%H.target", err: "%H depends on more"},
		"half a specifier":                  {unit: "a.service", install: "WantedBy=x%", err: "ends with a %"},
		"every mistake is told":             {unit: "a.service", install: "WantedBy=x\nWantedBy=y.target\nAlias=a.socket", links: "y.target.wants/a.service", err: "of another kind"},
	} {
		t.Run(says, func(t *testing.T) {
			links, err := installLinks(c.unit, c.install)
			var below []string
			for _, l := range links {
				below = append(below, strings.TrimPrefix(l, "/etc/systemd/system/"))
			}
			if got := strings.Join(below, " "); got != c.links {
				t.Errorf("it makes %q, want %q", got, c.links)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("it says %v, want %q", err, c.err)
			}
		})
	}
}

func FuzzNoInstallSectionLeadsOutOfTheUnitsDirectory(f *testing.F) {
	f.Add("t@a.service", "Alias=../x.wants/t@a.service\nWantedBy=%i/..")
	f.Fuzz(func(t *testing.T, unit, install string) {
		if !isUnitName(unit) {
			t.Skip()
		}
		links, _ := installLinks(unit, install)
		for _, l := range links {
			below, ok := strings.CutPrefix(l, "/etc/systemd/system/")
			if !ok || strings.Contains(l, "/../") || strings.Count(below, "/") > 1 {
				t.Errorf("%q of %q", l, install)
			}
		}
	})
}
