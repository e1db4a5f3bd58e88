package host_test

import (
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestInsideUnitsKeepTheirState has a unit that systemctl enabled on a host whose presets disable all units.
func TestInsideUnitsKeepTheirState(t *testing.T) {
	const (
		dropin   = `{"name":"agent.service","dropins":[{"name":"10.conf","contents":"[Service]\nNice=1\n"}]}`
		disabled = `{"name":"agent.service","enabled":false}`
		masked   = `{"name":"agent.service","mask":true}`
	)
	for name, c := range map[string]struct{ units, during string }{
		"a drop-in":       {dropin, "enabled"},
		"a disabled unit": {disabled, "disabled"},
		"a masked unit":   {masked, "masked"},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			put(t, map[string]string{"/usr/lib/systemd/system/agent.service": "WantedBy=multi-user.target"})
			if err := systemctl("enable", "agent.service")(); err != nil {
				t.Fatal(err)
			}
			none, some := config(t, "", ""), config(t, "rendered-a", c.units)
			updateTo(t, h, none, some)
			if got := isEnabled("agent.service"); got != c.during {
				t.Errorf("with the config, the unit is %s, want %s", got, c.during)
			}
			updateTo(t, h, some, config(t, "rendered-b", ""))
			if got := isEnabled("agent.service"); got != "enabled" {
				t.Errorf("after the revert, the unit is %s", got)
			}
		})
	}
}

func config(t *testing.T, name, units string) plan.Config {
	t.Helper()
	return configOf(t, name, `"systemd":{"units":[`+units+`]}`)
}

// configOf makes a config with a part of Ignition.
func configOf(t *testing.T, name, part string) plan.Config {
	t.Helper()
	raw := `{"ignition":{"version":"3.5.0"},` + part + `}`
	c, err := machineconfig.Parse(mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(raw)}})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Config{Name: name, Config: c}
}

// updateTo applies the steps from one config to another, without actions and without a reboot.
func updateTo(t *testing.T, h host.Host, from, to plan.Config) {
	t.Helper()
	accounts, err := apply.Accounts(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	way := plan.NewTransition(from, to, plan.Rules{Policy: disruption.Default()}, accounts)
	way.Decision = disruption.Decision{}
	seen, err := apply.Observe(t.Context(), h, way.Scope())
	if err != nil {
		t.Fatal(err)
	}
	p, contents := way.Plan(seen, []byte(to.Name))
	done, err := apply.Runner{Host: h}.Run(t.Context(), p, contents)
	if err != nil || done.Why != nil {
		t.Fatal(err, done.Why)
	}
	if err := systemctl("daemon-reload")(); err != nil {
		t.Fatal(err)
	}
}
