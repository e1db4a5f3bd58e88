package apply_test

import (
	"context"
	"errors"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// TestNewFilesAreLabelledBeforeProgramsReadThem: a file has the label of the policy when a service is restarted, and in
// the end; a label that cannot be restored is told, and stops nothing.
func TestNewFilesAreLabelledBeforeProgramsReadThem(t *testing.T) {
	for sentence, actions := range map[string][]disruption.Action{
		"without an action": nil,
		"with a restart":    {{Type: disruption.ActionRestart, Service: "vendor.service"}},
		"with a reboot":     {reboot},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := newMachine()
			to := machineconfig.Config{HasIgnition: true}
			to.Ignition.Storage.Files = []ign.File{{
				Node:          ign.Node{Path: "/etc/new"},
				FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: ptr("data:,x")}},
			}}
			h := m.Host()
			labelled, early, warned := false, 0, 0
			h.Relabel = func(context.Context) error {
				is, err := h.Files.Stat("/etc/new")
				labelled = err == nil && is.Kind == host.File
				return errors.New("no such label")
			}
			runner := apply.Runner{
				Host: h, OnWarning: func(error) { warned++ },
				OnStep: func(s host.Step, _ bool) {
					if s.IsAction() && !labelled {
						early++
					}
				},
			}
			p, contents := planOn(t, h, way(t, h, machineconfig.Config{}, to, actions...))
			done, err := runner.Run(t.Context(), p, contents)
			if err != nil || done.Why != nil || !labelled || early > 0 || warned == 0 {
				t.Errorf("%+v, %v; labelled %t, %d actions before, %d warnings\n%s", done, err, labelled, early,
					warned, p)
			}
		})
	}
}
