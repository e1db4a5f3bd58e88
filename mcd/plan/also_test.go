package plan_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

const withSocket = `"systemd":{"units":[
 {"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=multi-user.target\nAlso=a.socket v.socket\n"},
 {"name":"a.socket","contents":"[Install]\nWantedBy=sockets.target\n"}]}`

// stuck is the power of a machine that does not reboot.
type stuck struct{ host.Power }

// Reboot implements host.Power.
func (stuck) Reboot(context.Context, string) error { return errors.New("inhibited") }

func TestUnitsThatAreNamedWithAlsoFollowAndComeBack(t *testing.T) {
	for says, before := range map[string]bool{"disabled before": false, "enabled before": true} {
		t.Run(says, func(t *testing.T) {
			m := hosttest.NewMachine()
			m.Put("/usr/lib/systemd/system/v.socket", "[Install]\nWantedBy=sockets.target\n")
			first, second := ignition(t, "rendered-a", files("/etc/b")), ignition(t, "rendered-b", withSocket)
			if before {
				if err := m.Host().Units.Enable(t.Context(), "v.socket"); err != nil {
					t.Fatal(err)
				}
			}
			bring(t, m, ignition(t, "", ""), first)
			old := m.String()
			p, contents, _ := contentsOn(t, m, first, second)
			failing := m.Host()
			failing.Power = stuck{failing.Power}
			if done, err := (apply.Runner{Host: failing}).Run(t.Context(), p, contents); err != nil ||
				done.End != apply.Old {
				t.Fatal(done, err)
			}
			if diff := cmp.Diff(old, m.String()); diff != "" {
				t.Errorf("going back left: %s", diff)
			}
			bring(t, m, first, second)
			areEnabled(t, m, map[string]bool{"a.service": true, "a.socket": true, "v.socket": true})
			if again, _ := planOn(t, m, second, second); len(again.Steps) > 0 {
				t.Errorf("after the update this is left to do:\n%s", again)
			}
			bring(t, m, second, first)
			areEnabled(t, m, map[string]bool{"a.service": false, "a.socket": false, "v.socket": before})
		})
	}
}

func areEnabled(t *testing.T, m *hosttest.Machine, units map[string]bool) {
	t.Helper()
	for name, want := range units {
		if is, err := m.Host().Units.Status(t.Context(), name); err != nil || is.Enabled != want {
			t.Errorf("%s is enabled: %t, %v; want %t", name, is.Enabled, err, want)
		}
	}
}
