package reason

import (
	"testing"
)

// TestACommandHoldsNoOtherCommand: what a node reports is one word of the command that people paste.
func TestACommandHoldsNoOtherCommand(t *testing.T) {
	for item, want := range map[string]string{
		"/etc/motd":      "bunsen drift show node/n0 /etc/motd",
		"/etc/$(reboot)": "bunsen drift show node/n0 '/etc/$(reboot)'",
		"a; reboot":      "bunsen drift show node/n0 'a; reboot'",
		"it's":           `bunsen drift show node/n0 'it'\''s'`,
	} {
		if got := driftActions("n0", item)[0]; got != want {
			t.Errorf("for %q: %s, want %s", item, got, want)
		}
	}
}
