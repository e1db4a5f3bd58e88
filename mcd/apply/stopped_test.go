package apply_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// withUnits is a config with units of these names.
func withUnits(names ...string) (c machineconfig.Config) {
	c.HasIgnition = true
	for _, name := range names {
		c.Ignition.Systemd.Units = append(c.Ignition.Systemd.Units, ign.Unit{
			Name: name, Contents: ptr("[Service]\nExecStart=/usr/bin/" + name + "\n"),
		})
	}
	return c
}

// TestARollbackStopsWhatItsUpdateStarted: a service of the failed update, whose file is gone, does not go on running.
// Every other service runs with its old file again.
func TestARollbackStopsWhatItsUpdateStarted(t *testing.T) {
	restart := func(names ...string) []disruption.Action {
		all := []disruption.Action{{Type: disruption.ActionDaemonReload}}
		for _, name := range names {
			all = append(all, disruption.Action{Type: disruption.ActionRestart, Service: name})
		}
		return all
	}
	masked := withUnits("vendor.service")
	masked.Ignition.Systemd.Units[0] = ign.Unit{Name: "vendor.service", Mask: ptr(true)}
	for sentence, c := range map[string]struct {
		from, to machineconfig.Config
		actions  []disruption.Action
		broken   string
		want     string
	}{
		"a service of the update, when another one fails": {
			to: withUnits("new.service"), actions: restart("new.service", "vendor.service"), broken: "vendor.service",
			want: "daemon-reload, stop new.service, restart vendor.service",
		},
		"a service of the update that fails itself": {
			to: withUnits("new.service"), actions: restart("new.service"), broken: "new.service",
			want: "daemon-reload, stop new.service",
		},
		"a service that is reloaded, which starts it": {
			to: withUnits("new.service"), actions: []disruption.Action{
				{Type: disruption.ActionReload, Service: "new.service"},
			}, want: "stop new.service",
		},
		"an instance of a template of the update": {
			to: withUnits("new@.service"), actions: restart("new@a.service"),
			want: "daemon-reload, stop new@a.service",
		},
		"a service of the update that another one needs": {
			to: withUnits("new.service", "needed.service"), actions: restart("new.service"),
			want: "daemon-reload, stop new.service, stop needed.service",
		},
		"a service that the config had before": {
			from: withUnits("old.service"), to: withUnits("old.service", "new.service"),
			actions: restart("old.service"), want: "daemon-reload, restart old.service, stop new.service",
		},
		"a service of the vendor, whose file is in force again": {
			to: withUnits("vendor.service"), actions: restart("vendor.service"),
			want: "daemon-reload, restart vendor.service",
		},
		"a service that the config masked before": {
			from: masked, to: withUnits("vendor.service"), actions: restart("vendor.service"),
			want: "daemon-reload, stop vendor.service",
		},
		"a service that is nowhere, and not the update's": {
			to: withUnits("new.service"), actions: restart("none.service"),
			want: "daemon-reload, restart none.service, stop new.service",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := newMachine()
			h := m.Host()
			bring(t, h, way(t, h, machineconfig.Config{}, c.from))
			p, contents := planOn(t, h, way(t, h, c.from, c.to, c.actions...))
			m.Broken[c.broken] = c.broken != ""
			before := 0
			r := apply.Runner{
				Host:        h,
				HealthCheck: func(context.Context, host.Record) error { return errIll },
				OnBegin:     func(int) { before = len(m.Log) },
			}
			end, err := r.Run(t.Context(), p, contents)
			if err != nil || end.End != apply.Old || c.broken == "" && !errors.Is(end.Why, errIll) {
				t.Fatalf("%+v, %v\n%s", end, err, p)
			}
			if got := strings.Join(m.Log[before:], ", "); got != c.want {
				t.Errorf("the rollback does %q, want %q", got, c.want)
			}
		})
	}
}
