package ignition

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcs/join"
	"github.com/bunsen-os/bunsen/test/lab"
)

// TestAMachineComesUpAsItWasBorn starts real machines: an image's root, Ignition with a pointer and a token, our
// server, and then systemd's first start of what came of it. The machine has no network of its own: it needs none any
// more.
func TestAMachineComesUpAsItWasBorn(t *testing.T) {
	lab.Need(t)
	for name, n := range judges(t) {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.serve()
			tok, kept := s.grant(join.TokenOptions{Pool: "worker", Node: "born", Uses: 1, TTL: time.Hour})
			s.kept[kept.Name] = kept
			s.start()
			h := lab.Start(t, lab.Options{Name: "born", Prepare: func(root string) error {
				if err := n.prepare(root); err != nil {
					return err
				}
				// Presets are for a machine that has no identity yet.
				if err := os.Remove(root + "/etc/machine-id"); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
				log, err := n.start(t, root, s.pointer(tok.String(), n.reads))
				if err != nil {
					t.Log(log)
				}
				return err
			}})
			for want, program := range map[string]string{
				"from our server\n": "cat /etc/motd", "yes\n": "cat /run/born",
				"active\n": "systemctl is-active born.service", "enabled\n": "systemctl is-enabled born.service",
				"600 root\n": "stat --format=%a_%U /etc/born/private.key", "uid=": "id core",
				"running\n": "systemctl is-system-running",
			} {
				args := strings.Fields(program)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "_", " ")
				}
				if got := h.Do(args...); !strings.HasPrefix(got, want) {
					t.Errorf("%s says %q, want %q", program, got, want)
				}
			}
			if log := h.Do("journalctl", "--no-pager"); strings.Contains(log, tok.Secret) {
				t.Error("the token is in the machine's journal")
			}
		})
	}
}
