package disruption_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// TestUnitsThatANodeMustHave: only units that the config enables and does not write are named, and only once they are
// new.
func TestUnitsThatANodeMustHave(t *testing.T) {
	of := func(units, files string) machineconfig.Config {
		return config(t, `"systemd":{"units":[`+units+`]},"storage":{"files":[`+files+`]}`)
	}
	to := of(`{"name":"far.service","enabled":true},{"name":"old.service","enabled":true},{"name":"off.service",`+
		`"enabled":false},{"name":"own.service","enabled":true,"contents":"[Unit]\n"},{"name":"at@1.service","enabled":true},`+
		`{"name":"at@.service","contents":"[Unit]\n"},{"name":"file.service","enabled":true}`,
		`{"path":"/etc/systemd/system/file.service","contents":{"source":"data:,x"}}`)
	var named []string
	for _, r := range disruption.CheckedOnNode(of(`{"name":"old.service","enabled":true}`, ""), to) {
		if r.Check == disruption.CheckUnits {
			named = append(named, r.Field)
		}
	}
	if got := strings.Join(named, ", "); got != "unit far.service" {
		t.Errorf("named: %s", got)
	}
}
