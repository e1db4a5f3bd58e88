package state_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/state"
)

func TestAConfigIsGivenUpAfterItsLimit(t *testing.T) {
	for says, c := range map[string]struct {
		causes    []host.Cause
		exhausted bool
		fruitless int
	}{
		"nothing happened":                          {nil, false, 0},
		"one power cut":                             {[]host.Cause{host.Interrupted}, false, 0},
		"two power cuts":                            {[]host.Cause{host.Interrupted, host.Interrupted}, false, 1},
		"it goes down each time":                    {[]host.Cause{host.Interrupted, host.Interrupted, host.Interrupted}, true, 2},
		"a power cut lost the staged OS":            {[]host.Cause{host.NotBooted}, false, 1},
		"the staged OS does not boot":               {[]host.Cause{host.NotBooted, host.NotBooted}, true, 2},
		"one of each":                               {[]host.Cause{host.NotBooted, host.Interrupted}, false, 1},
		"a failed health check is no power cut":     {[]host.Cause{host.Unhealthy, host.Unhealthy, host.Unhealthy}, false, 0},
		"a step that failed is no power cut either": {[]host.Cause{"", "", ""}, false, 0},
	} {
		var n state.Attempts
		for _, cause := range c.causes {
			n = n.Add(cause)
		}
		if n.IsExhausted() != c.exhausted || n.Fruitless() != c.fruitless {
			t.Errorf("%s: %+v, exhausted %t, fruitless %d", says, n, n.IsExhausted(), n.Fruitless())
		}
	}
}

func TestAttemptsOfAFile(t *testing.T) {
	for text, want := range map[string]state.Attempts{
		`{"config":"a"}`: {},
		`{"config":"a","notBooted":1,"interrupted":2}`: {NotBooted: 1, Interrupted: 2},
		`{"config":"b","notBooted":1}`:                 {},
		`{"config":"a","notBoo`:                        {},
		``:                                             {},
	} {
		if got := state.ParseAttempts([]byte(text), "a"); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	n := state.Attempts{NotBooted: 1, Interrupted: 2}
	if text, err := n.Encode("a"); err != nil || state.ParseAttempts(text, "a") != n {
		t.Errorf("%s, %v", text, err)
	}
}
