package mcs

import (
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

func TestWhichConfigAPoolServes(t *testing.T) {
	for _, c := range []struct {
		because        string
		newest, proven string
		updated        int32
		want           string
		ok             bool
	}{
		{"nothing is rendered yet", "", "", 0, "", false},
		{"a new pool has proven nothing, and its first machine has to boot something", "rendered-b", "", 0, "rendered-b", true},
		{"no machine runs the newest yet", "rendered-b", "rendered-a", 0, "rendered-a", true},
		{"one machine runs the newest", "rendered-b", "rendered-a", 1, "rendered-b", true},
		{"all is quiet", "rendered-a", "rendered-a", 3, "rendered-a", true},
		{"the newest was taken away by hand", "", "rendered-a", 3, "rendered-a", true},
	} {
		var pool mcfgv1.MachineConfigPool
		pool.Spec.Configuration.Name, pool.Status.Configuration.Name = c.newest, c.proven
		pool.Status.UpdatedMachineCount = c.updated
		if got, ok := Serve(pool); got != c.want || ok != c.ok {
			t.Errorf("%s: got %q %t, want %q %t", c.because, got, ok, c.want, c.ok)
		}
	}
}
