package main

import (
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func TestADaemonIsReadyAfterItsReportWhileTheAPIServerAnswers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		reported bool
		answered time.Time
		want     string
	}{
		"it has reported":                       {true, now.Add(-time.Minute), ""},
		"a short outage":                        {true, now.Add(-v1alpha1.DaemonSilentAfter), ""},
		"a long outage":                         {true, now.Add(-v1alpha1.DaemonSilentAfter - time.Second), "the API server has not answered for 4m1s"},
		"it has not reported":                   {false, now, "has not reported the state of its node yet"},
		"the API server has never answered yet": {false, time.Time{}, "has not reported"},
	} {
		r := &readiness{lastAnswer: func() time.Time { return c.answered }, now: func() time.Time { return now }}
		r.reported.Store(c.reported)
		err := r.check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
