package plan_test

import (
	"fmt"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// BenchmarkPlanNew plans a thousand new files, each with a stamp beside it.
func BenchmarkPlanNew(b *testing.B) {
	c := machineconfig.Config{HasIgnition: true}
	for i := range 1000 {
		s := fmt.Sprintf("data:,%01500d", i)
		c.Ignition.Storage.Files = append(c.Ignition.Storage.Files,
			ign.File{
				Node:          ign.Node{Path: fmt.Sprintf("/etc/app/%04d.conf", i)},
				FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &s}},
			})
	}
	w := plan.NewTransition(plan.Config{}, plan.Config{Name: "b", Config: c}, plan.Rules{}, host.Accounts{})
	st := host.State{}.Clone()
	for _, p := range w.Scope().Paths {
		st.Paths[p] = host.Entry{}
	}
	for b.Loop() {
		w.Plan(st, []byte("x"))
	}
}
