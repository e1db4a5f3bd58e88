package plan_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// TestAConfigKeepsTheStateOfAUnitThatItDoesNotSet has a kubelet that its installer enabled on a machine whose presets
// disable all units, as CoreOS and RHEL do. The machine goes through configs one after the other; an update to the
// empty config is a revert.
func TestAConfigKeepsTheStateOfAUnitThatItDoesNotSet(t *testing.T) {
	const (
		dropin  = `{"name":"kubelet.service","dropins":[{"name":"10.conf","contents":"[Service]\nNice=1\n"}]}`
		own     = `{"name":"kubelet.service","contents":"[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=a.target\n"}`
		static  = `{"name":"kubelet.service","contents":"[Service]\nExecStart=/bin/a\n"}`
		on      = `{"name":"kubelet.service","enabled":true}`
		off     = `{"name":"kubelet.service","enabled":false}`
		masked  = `{"name":"kubelet.service","mask":true}`
		cleared = `{"name":"kubelet.service","dropins":[{"name":"10.conf","contents":"[Install]\nWantedBy=\n"}]}`
		with    = `{"name":"x.service","enabled":true,"contents":"[Install]\nWantedBy=a.target\nAlso=kubelet.service\n"}`
	)
	for name, c := range map[string]struct {
		// manual is the state that the installer left.
		manual bool
		// units are the units of one config after the other.
		units []string
		// want has the state after each.
		want []bool
	}{
		"a drop-in":                             {true, []string{dropin, ""}, []bool{true, true}},
		"a drop-in of a disabled unit":          {false, []string{dropin, ""}, []bool{false, false}},
		"enabled":                               {true, []string{on, ""}, []bool{true, true}},
		"enabled, of a disabled unit":           {false, []string{on, ""}, []bool{true, false}},
		"disabled":                              {true, []string{off, ""}, []bool{false, true}},
		"disabled, then without a state":        {true, []string{off, dropin, ""}, []bool{false, true, true}},
		"disabled, of a disabled unit":          {false, []string{off, ""}, []bool{false, false}},
		"masked":                                {true, []string{masked, ""}, []bool{false, true}},
		"masked, then without a state":          {true, []string{masked, dropin}, []bool{false, true}},
		"a unit file":                           {true, []string{own, ""}, []bool{true, true}},
		"a unit file of a disabled unit":        {false, []string{own, ""}, []bool{false, false}},
		"a unit file that cannot be enabled":    {true, []string{static, own, ""}, []bool{false, true, true}},
		"a drop-in that clears [Install]":       {true, []string{cleared, dropin}, []bool{false, true}},
		"several in turn":                       {true, []string{off, on, masked, own, dropin, ""}, []bool{false, true, false, true, true, true}},
		"along with another unit":               {true, []string{with, ""}, []bool{true, true}},
		"along with another unit, and disabled": {false, []string{with, ""}, []bool{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			m := hosttest.NewMachine()
			m.Put(vendorDir+"kubelet.service", "[Service]\nExecStart=/bin/kubelet\n[Install]\n"+
				"WantedBy=multi-user.target\n")
			if c.manual {
				if err := m.Host().Units.Enable(t.Context(), "kubelet.service"); err != nil {
					t.Fatal(err)
				}
			}
			from := ignition(t, "", "")
			for i, units := range c.units {
				to := ignition(t, "rendered-"+string(rune('a'+i)), `"systemd":{"units":[`+units+`]}`)
				bring(t, m, from, to)
				if u, err := m.Host().Units.Status(t.Context(), "kubelet.service"); err != nil ||
					u.Enabled != c.want[i] {
					t.Errorf("after config %d, enabled is %t, %v; want %t", i, u.Enabled, err, c.want[i])
				}
				if again, _ := planOn(t, m, to, to); len(again.Steps) > 0 {
					t.Errorf("after config %d this is left to do:\n%s", i, again)
				}
				from = to
			}
			if units := c.units[len(c.units)-1]; units == "" || units == dropin {
				has(t, m, host.UnitsPath, "absent")
			}
		})
	}
}

// TestAUnitThatDoesNotExistIsNamed: systemd itself says nothing about a unit that is enabled and does not exist.
func TestAUnitThatDoesNotExistIsNamed(t *testing.T) {
	m := hosttest.NewMachine()
	m.Put(vendorDir+"chronyd.service", "[Service]\nExecStart=/bin/chronyd\n[Install]\nWantedBy=multi-user.target\n")
	to := ignition(t, "rendered-a", `"systemd":{"units":[{"name":"chrnoyd.service","enabled":true},`+
		`{"name":"chronyd.service","enabled":true},{"name":"other.service","enabled":false},`+
		`{"name":"own.service","enabled":true,"contents":"[Service]\nExecStart=/a\n"}]}`)
	p, _ := planOn(t, m, ignition(t, "", ""), to)
	if len(p.Notes) != 1 || !strings.Contains(p.String(), "note: unit chrnoyd.service does not exist on this machine") {
		t.Errorf("the plan is\n%s", p)
	}
}

// TestARollbackReturnsAUnitWithItsRecord undoes an update that disabled a unit.
func TestARollbackReturnsAUnitWithItsRecord(t *testing.T) {
	m := hosttest.NewMachine()
	from, to := ignition(t, "", ""),
		ignition(t, "rendered-a", `"systemd":{"units":[{"name":"vendor.service","enabled":true}]}`)
	p, _ := planOn(t, m, from, to)
	if back := p.Inverse().String(); !strings.Contains(back, "disable vendor.service") ||
		!strings.Contains(back, "remove "+host.UnitsPath) {
		t.Errorf("the rollback is\n%s", back)
	}
}
