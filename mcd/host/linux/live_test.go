package linux

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bunsen-os/bunsen/mcd/host"
)

func TestAJobThatNeverEndsIsAnErrorAndNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := await(t.Context(), "slow.service", func(chan<- string) (int, error) { return 1, nil })
		if err == nil || !strings.Contains(err.Error(), "slow.service has not ended") {
			t.Error(err)
		}
	})
}

func TestAJobsResultIsTold(t *testing.T) {
	for result, ok := range map[string]bool{"done": true, "failed": false, "timeout": false} {
		err := await(t.Context(), "a.service", func(done chan<- string) (int, error) {
			done <- result
			return 1, nil
		})
		if (err == nil) != ok {
			t.Errorf("%s: %v", result, err)
		}
	}
}

func TestARealMachineSaysThatItsOSIsNotChanged(t *testing.T) {
	is, err := PlainOS{}.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (host.Support{Why: NoOSSupport}); is.Support != want || is.Booted != is.Next || is.Booted.Kargs == "" {
		t.Errorf("%+v", is)
	}
	if err := (PlainOS{}).Stage(t.Context(), host.Step{Verb: host.SetKargs}); err == nil {
		t.Error("it staged")
	}
}
