package agent

import (
	"fmt"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
)

func TestAPathThatAUserLedElsewhereIsACauseOfItsOwn(t *testing.T) {
	why := fmt.Errorf("write /home/app/a: %w", &host.UnsafePathError{
		Path: "/home/app/a", Component: "/home/app",
		UID: 1500,
	})
	if f := outcomeOf(why).of("rendered-b").failureIn(report.Blocked); f.Cause != v1alpha1.FailureUnsafePath || f.Path != "/home/app/a" ||
		f.Config != "rendered-b" {
		t.Errorf("it is reported as %+v", f)
	}
}
