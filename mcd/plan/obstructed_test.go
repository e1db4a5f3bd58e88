package plan_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// obstructed are machines on which systemd cannot enable a unit that a config enables.
var obstructed = map[string]struct {
	// files and links are made before the update, and later after it.
	files, links, later map[string]string
	// from and to are lists of units; from is "" for none.
	from, to string
	// steps are those about units, says is a part of a refusal or a note, and left is the drift after the update.
	steps, refuses, notes, left string
}{
	"a mask made by hand refuses a config that enables the unit": {
		links: map[string]string{adminDir + "vendor.service": "/dev/null"},
		to:    `{"name":"vendor.service","enabled":true}`,
		refuses: "systemd.units vendor.service: the config enables it, and on this node it is masked by hand with " +
			"/etc/systemd/system/vendor.service: systemctl unmask vendor.service on the node, or set mask: false",
	},
	"an empty file masks like a link": {
		files:   map[string]string{adminDir + "vendor.service": ""},
		to:      `{"name":"vendor.service","enabled":true}`,
		refuses: "is masked by hand",
	},
	"a mask until the next boot refuses too": {
		links:   map[string]string{"/run/systemd/system/vendor.service": "/dev/null"},
		to:      `{"name":"vendor.service","enabled":true}`,
		refuses: "systemctl unmask --runtime vendor.service",
	},
	"the mask of a template is that of its instances": {
		links:   map[string]string{adminDir + "t@.service": "/dev/null"},
		files:   map[string]string{vendorDir + "t@.service": "[Install]\nWantedBy=a.target\n"},
		to:      `{"name":"t@x.service","enabled":true}`,
		refuses: "systemctl unmask t@.service",
	},
	"a config with mask: false unmasks the unit": {
		links: map[string]string{adminDir + "vendor.service": "/dev/null"},
		to:    `{"name":"vendor.service","enabled":true,"mask":false}`,
		steps: "enable vendor.service",
	},
	"a config with the contents of the unit replaces the mask": {
		links: map[string]string{adminDir + "vendor.service": "/dev/null"},
		to:    unit("vendor.service", "true", "WantedBy=a.target"),
		steps: "enable vendor.service",
	},
	"a config that masks a unit masks it, whatever else it says": {
		to: `{"name":"vendor.service","enabled":true,"mask":true}`,
	},
	"the mask of the image stays, as on a new machine": {
		links: map[string]string{vendorDir + "off.service": "/dev/null"},
		to:    `{"name":"off.service","enabled":true}`,
		notes: "unit off.service is masked by the image with /usr/lib/systemd/system/off.service",
	},
	"the mask that the image has in /etc stays too": {
		links: map[string]string{
			adminDir + "vendor.service": "/dev/null", "/usr" + adminDir + "vendor.service": "/dev/null",
		},
		files: map[string]string{"/ostree/repo/config": "x"},
		to:    `{"name":"vendor.service","enabled":true}`,
		notes: "unit vendor.service is masked by the image with /etc/systemd/system/vendor.service, so it cannot be " +
			"enabled: systemctl unmask vendor.service on the node, or set mask: false",
	},
	"where the image has another file, the mask is made by hand": {
		links: map[string]string{adminDir + "vendor.service": "/dev/null"},
		files: map[string]string{
			"/ostree/repo/config": "x", "/usr" + adminDir + "vendor.service": "[Install]\nWantedBy=a.target\n",
		},
		to:      `{"name":"vendor.service","enabled":true}`,
		refuses: "is masked by hand",
	},
	"a config with mask: false unmasks what the image masks in /etc": {
		links: map[string]string{
			adminDir + "vendor.service": "/dev/null", "/usr" + adminDir + "vendor.service": "/dev/null",
		},
		files: map[string]string{"/ostree/repo/config": "x"},
		to:    `{"name":"vendor.service","enabled":true,"mask":false}`,
		steps: "enable vendor.service",
	},
	"a unit without [Install] is named": {
		files: map[string]string{vendorDir + "static.service": "[Service]\nExecStart=/bin/a\n"},
		to:    `{"name":"static.service","enabled":true}`,
		notes: "unit static.service has no [Install] section on this machine",
	},
	"a template without an instance is named": {
		files: map[string]string{vendorDir + "t@.service": "[Install]\nWantedBy=a.target\n"},
		to:    `{"name":"t@.service","enabled":true}`,
		notes: "unit t@.service is a template without a default instance, so it cannot be enabled: " +
			"enable an instance such as t@INSTANCE.service",
	},
	"a link to another unit is named": {
		links: map[string]string{adminDir + "other.service": vendorDir + "vendor.service"},
		to:    `{"name":"other.service","enabled":true}`,
		notes: "unit other.service is a link on this machine that leads to /usr/lib/systemd/system/vendor.service, " +
			"so it cannot be enabled: enable vendor.service instead",
	},
	"another's drop-in that clears [Install] refuses a config that enables the unit": {
		files:   map[string]string{adminDir + "a.service.d/50.conf": "[Install]\nWantedBy=\n"},
		to:      unit("a.service", "true", "WantedBy=a.target"),
		refuses: "because the drop-in /etc/systemd/system/a.service.d/50.conf clears it",
	},
	"the image's drop-in that does is named": {
		files: map[string]string{
			vendorDir + "vendor.service.d/50.conf": "[Install]\nWantedBy=\n",
		},
		to:    `{"name":"vendor.service","enabled":true}`,
		notes: "because the drop-in /usr/lib/systemd/system/vendor.service.d/50.conf clears it",
	},
	"another's drop-in that clears [Install] later does not disable the unit": {
		later: map[string]string{adminDir + "a.service.d/50.conf": "[Install]\nWantedBy=\n"},
		from:  unit("a.service", "true", "WantedBy=a.target"),
		to:    unit("a.service", "true", "WantedBy=a.target") + `,{"name":"b.service","enabled":false}`,
		notes: "unit a.service has no [Install] section any more",
	},
	"a mask made by hand after the update is drift, also for the next update": {
		later: map[string]string{adminDir + "vendor.service": "-> /dev/null"},
		from:  `{"name":"vendor.service","enabled":true}`,
		to:    `{"name":"vendor.service","enabled":true},{"name":"b.service","enabled":false}`,
		notes: "unit vendor.service is masked by hand",
		left: `unit "vendor.service": expected enabled; received masked: it is masked by hand with ` +
			`/etc/systemd/system/vendor.service: systemctl unmask vendor.service on the node, or set mask: false`,
	},
	"no drift, if the next config masks the unit too": {
		later: map[string]string{adminDir + "vendor.service": "-> /dev/null"},
		from:  `{"name":"vendor.service","enabled":true}`,
		to:    `{"name":"vendor.service","mask":true}`,
		steps: "disable vendor.service",
	},
	"no drift, if the next config unmasks the unit": {
		later: map[string]string{adminDir + "vendor.service": "-> /dev/null"},
		from:  `{"name":"vendor.service","enabled":true}`,
		to:    `{"name":"vendor.service","enabled":true,"mask":false}`,
		steps: "disable vendor.service, enable vendor.service",
	},
	"a mask where the config says mask: false is drift": {
		later: map[string]string{adminDir + "vendor.service": "-> /dev/null"},
		from:  `{"name":"vendor.service","mask":false}`,
		to:    `{"name":"vendor.service","mask":false},{"name":"b.service","enabled":false}`,
		left: `kind mismatch for "/etc/systemd/system/vendor.service": expected nothing; received link: the unit ` +
			`is masked by hand with /etc/systemd/system/vendor.service: systemctl unmask vendor.service on the node, or set mask: false`,
	},
}

// TestAUnitsTargetIsWhatTheConfigSays plans updates on machines that cannot enable a unit.
func TestAUnitsTargetIsWhatTheConfigSays(t *testing.T) {
	for sentence, c := range obstructed {
		t.Run(sentence, func(t *testing.T) {
			m := hosttest.NewMachine()
			for p, text := range c.files {
				m.Put(p, text)
			}
			for p, to := range c.links {
				symlink(t, m, p, to)
			}
			from := ignition(t, "", "")
			if c.from != "" {
				from = ignition(t, "rendered-a", `"systemd":{"units":[`+c.from+`]}`)
				bring(t, m, ignition(t, "", ""), from)
			}
			for p, text := range c.later {
				if to, is := strings.CutPrefix(text, "-> "); is {
					symlink(t, m, p, to)
				} else {
					m.Put(p, text)
				}
			}
			to := ignition(t, "rendered-b", `"systemd":{"units":[`+c.to+`]}`)
			before := driftOf(t, m, from, to)
			p, _ := planOn(t, m, from, to)
			var steps []string
			for _, s := range p.Steps {
				if s.Verb == host.Enable || s.Verb == host.Disable {
					steps = append(steps, string(s.Verb)+" "+s.Target)
				}
			}
			if got := strings.Join(steps, ", "); c.refuses == "" && got != c.steps {
				t.Errorf("the steps are %q, want %q", got, c.steps)
			}
			var refusals []string
			for _, r := range p.Refusals {
				refusals = append(refusals, r.Field+": "+r.Why)
			}
			says(t, "refuses", strings.Join(refusals, "\n"), c.refuses)
			says(t, "finds the drift", before, c.left)
			if c.refuses != "" {
				return
			}
			says(t, "notes", strings.Join(p.Notes, "\n"), c.notes)
			bring(t, m, from, to)
			if strings.Contains(c.left, "expected nothing") {
				c.left = "" // The update removes a mask where the config says mask: false.
			}
			says(t, "leaves the drift", driftOf(t, m, to, to), c.left)
		})
	}
}

// says compares a text with what it has to contain; "" for no text.
func says(t *testing.T, what, got, want string) {
	t.Helper()
	if (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("it %s %q, want %q", what, got, want)
	}
}

func symlink(t *testing.T, m *hosttest.Machine, at, to string) {
	t.Helper()
	m.Put(at, "")
	if err := m.Host().Files.Link(at, host.Entry{Target: to}); err != nil {
		t.Fatal(err)
	}
}

// driftOf returns the drift of a machine from a config, before an update to the next one.
func driftOf(t *testing.T, m *hosttest.Machine, from, next plan.Config) string {
	t.Helper()
	_, w := planOn(t, m, from, next)
	var texts []string
	for _, it := range drift.Items(observe(t, m.Host(), w.Scope()), w.Old, w.New) {
		texts = append(texts, it.String())
	}
	return strings.Join(texts, "\n")
}
