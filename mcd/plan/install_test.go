package plan_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

const (
	vendorDir = "/usr/lib/systemd/system/"
	adminDir  = "/etc/systemd/system/"
)

// TestDropInsCountWhereTheySaySomethingOfInstall goes from one config to another, and back. The unit's [Install] is
// what systemd makes of its file and its drop-ins.
func TestDropInsCountWhereTheySaySomethingOfInstall(t *testing.T) {
	for sentence, c := range map[string]struct {
		// there are files of the machine: path and [Install], with blanks between lines.
		there map[string]string
		// from and to are lists of units.
		from, to string
		// unit in question; what it installs in the end, and which of its steps the plan has.
		unit, installs, steps string
	}{
		"a drop-in adds to what its unit says": {
			to:   unit("a.service", "true", "WantedBy=a.target", "10=WantedBy=b.target Alias=c.service"),
			unit: "a.service", installs: "WantedBy=a.target WantedBy=b.target Alias=c.service", steps: "enable",
		},
		"every kind of line does": {
			to: unit("a@.service", "true", "", "10=WantedBy=a.target RequiredBy=b.target UpheldBy=c.target "+
				"DefaultInstance=x"),
			unit: "a@.service", installs: "WantedBy=a.target RequiredBy=b.target UpheldBy=c.target DefaultInstance=x",
			steps: "enable",
		},
		"a unit without [Install] is enabled by that of a drop-in": {
			to:   unit("a.service", "true", "", "10=WantedBy=a.target"),
			unit: "a.service", installs: "WantedBy=a.target", steps: "enable",
		},
		"a vendor's unit too": {
			there: map[string]string{vendorDir + "a.service": ""},
			to:    unit("a.service", "true", "none", "10=WantedBy=a.target"),
			unit:  "a.service", installs: "WantedBy=a.target", steps: "enable",
		},
		"a unit that has no file is not": {
			to:   unit("a.service", "true", "none", "10=WantedBy=a.target"),
			unit: "a.service",
		},
		"an empty line forgets what was said": {
			to:   unit("a.service", "true", "WantedBy=a.target RequiredBy=b.target", "10=WantedBy= WantedBy=c.target"),
			unit: "a.service", installs: "RequiredBy=b.target WantedBy=c.target", steps: "enable",
		},
		"one that forgets all leaves a unit that cannot be enabled": {
			from: unit("a.service", "true", "WantedBy=a.target"),
			to:   unit("a.service", "true", "WantedBy=a.target", "10=WantedBy="),
			unit: "a.service", steps: "disable",
		},
		"an empty Also forgets nothing, as in systemd": {
			to:   unit("a.service", "true", "WantedBy=a.target Also=b.socket", "10=Also="),
			unit: "a.service", installs: "WantedBy=a.target Also=b.socket", steps: "enable",
		},
		"of default instances, the last one counts": {
			to:   unit("a@.service", "true", "WantedBy=a.target DefaultInstance=x", "10=DefaultInstance=y"),
			unit: "a@.service", installs: "WantedBy=a.target DefaultInstance=y", steps: "enable",
		},
		"drop-ins count in the order of their names, wherever they are": {
			there: map[string]string{vendorDir + "a.service.d/20.conf": "WantedBy= WantedBy=v.target"},
			to:    unit("a.service", "true", "WantedBy=a.target", "10=WantedBy=b.target", "30=WantedBy=c.target"),
			unit:  "a.service", installs: "WantedBy=v.target WantedBy=c.target", steps: "enable",
		},
		"a drop-in hides the vendor's of the same name": {
			there: map[string]string{vendorDir + "a.service.d/10.conf": "WantedBy=v.target"},
			to:    unit("a.service", "true", "WantedBy=a.target", "10=RequiredBy=b.target"),
			unit:  "a.service", installs: "WantedBy=a.target RequiredBy=b.target", steps: "enable",
		},
		"an empty one does too": {
			there: map[string]string{
				vendorDir + "a.service":           "WantedBy=a.target",
				vendorDir + "a.service.d/10.conf": "WantedBy=v.target",
			},
			to:   unit("a.service", "true", "none", "10"),
			unit: "a.service", installs: "WantedBy=a.target", steps: "enable",
		},
		"a template's drop-ins are its instances'": {
			to: unit("a@.service", "null", "WantedBy=a.target", "10=WantedBy=b.target") + "," + unit("a@x.service",
				"true", "none"),
			unit: "a@x.service", installs: "WantedBy=a.target WantedBy=b.target", steps: "enable",
		},
		"an instance's own drop-in hides its template's": {
			to: unit("a@.service", "null", "WantedBy=a.target", "10=WantedBy=b.target") + "," + unit("a@x.service",
				"true", "none", "10=WantedBy=c.target"),
			unit: "a@x.service", installs: "WantedBy=a.target WantedBy=c.target", steps: "enable",
		},
		"a drop-in that comes changes the links": {
			from: unit("a.service", "true", "WantedBy=a.target"),
			to:   unit("a.service", "true", "WantedBy=a.target", "10=WantedBy=b.target"),
			unit: "a.service", installs: "WantedBy=a.target WantedBy=b.target", steps: "disable enable",
		},
		"one that goes too": {
			from: unit("a.service", "true", "WantedBy=a.target", "10=WantedBy=b.target"),
			to:   unit("a.service", "true", "WantedBy=a.target"),
			unit: "a.service", installs: "WantedBy=a.target", steps: "disable enable",
		},
		"one that says nothing of it does not": {
			from: unit("a.service", "true", "WantedBy=a.target"),
			to:   unit("a.service", "true", "WantedBy=a.target", "10"),
			unit: "a.service", installs: "WantedBy=a.target",
		},
		"a person's drop-in stays and counts": {
			there: map[string]string{adminDir + "a.service.d/50.conf": "WantedBy=p.target"},
			from:  unit("a.service", "true", "WantedBy=a.target"),
			to:    unit("a.service", "true", "WantedBy=b.target"),
			unit:  "a.service", installs: "WantedBy=b.target WantedBy=p.target", steps: "disable enable",
		},
		"a person's drop-in that the config replaced comes back and counts": {
			there: map[string]string{adminDir + "a.service.d/10.conf": "WantedBy=p.target"},
			from:  unit("a.service", "true", "WantedBy=a.target", "10=WantedBy=b.target"),
			to:    unit("a.service", "true", "WantedBy=a.target"),
			unit:  "a.service", installs: "WantedBy=a.target WantedBy=p.target", steps: "disable enable",
		},
		"units that a drop-in names with Also follow": {
			there: map[string]string{vendorDir + "b.socket": "WantedBy=sockets.target"},
			to:    unit("a.service", "true", "WantedBy=a.target", "10=Also=b.socket"),
			unit:  "b.socket", installs: "WantedBy=sockets.target", steps: "enable",
		},
		"a masked unit has none": {
			from: unit("a.service", "true", "WantedBy=a.target", "10=WantedBy=b.target"),
			to:   `{"name":"a.service","mask":true,"dropins":[{"name":"10.conf","contents":"[Install]\nWantedBy=b.target\n"}]}`,
			unit: "a.service", steps: "disable",
		},
		"a unit that leaves the config is disabled with its drop-in": {
			there: map[string]string{vendorDir + "a.service": ""},
			from:  unit("a.service", "true", "none", "10=WantedBy=a.target"),
			to:    unit("b.service", "true", "WantedBy=b.target"),
			unit:  "a.service", steps: "disable",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := hosttest.NewMachine()
			for p, says := range c.there {
				m.Put(p, "[Unit]\n[Install]\n"+strings.ReplaceAll(says, " ", "\n")+"\n")
			}
			var from, to plan.Config
			if from = ignition(t, "", ""); c.from != "" {
				from = ignition(t, "rendered-a", `"systemd":{"units":[`+c.from+`]}`)
				bring(t, m, ignition(t, "", ""), from)
			}
			to = ignition(t, "rendered-b", `"systemd":{"units":[`+c.to+`]}`)
			old := m.Tree()
			p, _ := planOn(t, m, from, to)
			var steps []string
			for _, s := range p.Steps {
				if s.Target == c.unit && !s.IsAction() {
					steps = append(steps, string(s.Verb))
				}
			}
			if got := strings.Join(steps, " "); got != c.steps || len(p.Refusals) > 0 {
				t.Errorf("the steps are %q, want %q:\n%s", got, c.steps, p)
			}
			bring(t, m, from, to)
			is, err := m.Host().Units.Status(t.Context(), c.unit)
			if got := strings.ReplaceAll(is.Install, "\n", " "); err != nil || got != c.installs || is.Enabled &&
				c.installs == "" || !is.Enabled && strings.HasSuffix(c.steps, "enable") {
				t.Errorf("it is %+v, %v; want %q", is, err, c.installs)
			}
			if again, _ := planOn(t, m, to, to); len(again.Steps) > 0 {
				t.Errorf("after the update this is left to do:\n%s", again)
			}
			if bring(t, m, to, from); c.from != "" && !sameUnits(old, m.Tree()) {
				t.Errorf("the way back ends in\n%s\nwant\n%s", m.Tree(), old)
			}
		})
	}
}

// unit is one of a config: enabled is true, false or null; the file says something in [Install], or is none; a drop-in
// is
// 10=WantedBy=a.target, or empty.
func unit(name, enabled, says string, dropins ...string) string {
	text := func(says string) string {
		return `[Unit]\n[Install]\n` + strings.ReplaceAll(says, " ", `\n`) + `\n`
	}
	var contents string
	if says != "none" {
		contents = `,"contents":"` + text(says) + `"`
	}
	var list []string
	for _, d := range dropins {
		number, says, said := strings.Cut(d, "=")
		if said {
			says = text(says)
		}
		list = append(list, `{"name":"`+number+`.conf","contents":"`+says+`"}`)
	}
	return `{"name":"` + name + `","enabled":` + enabled + contents + `,"dropins":[` + strings.Join(list, ",") + `]}`
}

// sameUnits compares what is enabled, and the administrator's units and drop-ins.
func sameUnits(a, b string) bool {
	only := func(tree string) (lines []string) {
		for line := range strings.Lines(tree) {
			if strings.HasPrefix(line, "enabled ") || strings.HasPrefix(line, adminDir) && !strings.Contains(line,
				" dir ") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	return strings.Join(only(a), "") == strings.Join(only(b), "")
}
