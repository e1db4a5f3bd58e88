package health_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
)

const (
	limit  = time.Minute
	settle = 10 * time.Second
)

// start is any time.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func unit(state, sub, result string) health.Observation {
	return health.Observation{Units: []health.Unit{{Name: "a.service", State: state, Sub: sub, Result: result}}}
}

// is what is seen from a second on.
type is struct {
	from int
	seen health.Observation
}

// judge looks every second until the watch knows.
func judge(story ...is) (after time.Duration, ill *health.Failure) {
	w := health.Watch{Limit: limit, Settle: settle}
	for now := 0; ; now++ {
		var seen health.Observation
		for _, s := range story {
			if s.from <= now {
				seen = s.seen
			}
		}
		if done, ill := w.Observe(start.Add(time.Duration(now)*time.Second), seen); done {
			return time.Duration(now) * time.Second, ill
		}
	}
}

func TestWhatCountsAsHealthy(t *testing.T) {
	well := unit("active", "running", "success")
	api := func(a health.API) health.Observation { return health.Observation{API: a, APIWhy: "why not"} }
	for _, c := range []struct {
		says  string
		story []is
		after time.Duration
		// ill is what is said to be wrong, "" for nothing; it begins with "?" where it is in doubt.
		ill string
	}{
		{"an active unit, when it has settled", []is{{0, well}}, settle, ""},
		{"a oneshot that has ended well", []is{{0, unit("inactive", "dead", "success")}}, settle, ""},
		{"nothing to look at", []is{{0, health.Observation{}}}, settle, ""},
		{"not a unit that has failed, as soon as that has settled", []is{{0, unit("failed", "failed", "exit-code")}}, settle, "unit a.service failed (result exit-code)"},
		{"not a unit that dies right after its start", []is{{0, well}, {5, unit("failed", "failed", "signal")}}, 5*time.Second + settle, "unit a.service failed (result signal)"},
		{"a unit that failed once and came up", []is{{0, unit("failed", "failed", "exit-code")}, {3, well}}, 3*time.Second + settle, ""},
		{"not a unit that is started again and again, when the time is up", []is{{0, unit("activating", "auto-restart", "exit-code")}}, limit, "unit a.service restarts repeatedly (result exit-code)"},
		{"a unit that is still starting when the time is up: systemd waits for it too", []is{{0, unit("activating", "start", "success")}}, limit, ""},
		{"a unit that is up just before the time is up", []is{{0, unit("activating", "start", "success")}, {55, well}}, 55*time.Second + settle, ""},
		{"not a unit that falls down again after the time was up", []is{{0, unit("activating", "start", "")}, {55, well}, {61, unit("activating", "auto-restart", "exit-code")}}, 61 * time.Second, "unit a.service restarts repeatedly (result exit-code)"},
		{"not a unit that systemd does not tell about", []is{{0, health.Observation{Units: []health.Unit{{Name: "a.service", Unknown: "no bus"}}}}}, limit, "unit a.service: no bus"},
		{"a kubelet that takes its time", []is{{0, health.Observation{Kubelet: "connection refused"}}, {30, health.Observation{}}}, 30*time.Second + settle, ""},
		{"not a kubelet that stays down", []is{{0, health.Observation{Kubelet: "connection refused"}}}, limit, "the kubelet is not healthy, and was before: connection refused"},
		{"an API server that answers", []is{{0, api(health.NoAnswer)}, {20, api(health.Answers)}}, 20*time.Second + settle, ""},
		{"an API server that another machine refuses to be: it is down for all", []is{{0, api(health.RefusedElsewhere)}}, limit, ""},
		{"not one that this machine refuses to be", []is{{0, api(health.RefusedHere)}}, limit, "?the API server, which runs on this machine, does not answer: why not"},
		{"not one that nothing is heard of", []is{{0, api(health.NoAnswer)}}, limit, "?the API server is unreachable: why not"},
		{"not one that does not know this node", []is{{0, api(health.Untrusted)}}, limit, "?the API server and this node no longer accept each other's credentials: why not"},
		{"not two things, and then there is no doubt", []is{{0, health.Observation{API: health.NoAnswer, Kubelet: "k"}}}, limit, "the kubelet is not healthy, and was before: k; the API server is unreachable: "},
	} {
		t.Run(c.says, func(t *testing.T) {
			after, ill := judge(c.story...)
			got := ""
			if ill != nil {
				got = ill.Error()
				if ill.Unconfirmed {
					got = "?" + got
				}
			}
			if after != c.after || got != c.ill {
				t.Errorf("after %s: %q; want after %s: %q", after, got, c.after, c.ill)
			}
		})
	}
}

func TestAUnitThatComesAndGoesDoesNotStayWell(t *testing.T) {
	var story []is
	for at := 0; at < 120; at += 8 {
		story = append(story, is{at, unit("active", "running", "success")},
			is{at + 4, unit("activating", "auto-restart", "exit-code")})
	}
	after, ill := judge(story...)
	if ill == nil || after < limit || !slices.Equal(ill.Units, []string{"a.service"}) || ill.Unconfirmed {
		t.Errorf("after %s: %+v", after, ill)
	}
}

// TestAWatchAlwaysKnowsInTime lets anything be seen: it knows when the time and the time to settle are up, calls
// nothing well that was not so throughout the time to settle or is still waited for, and doubts only the API server.
func TestAWatchAlwaysKnowsInTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	choices := []health.Observation{
		{},
		unit("active", "running", "success"), unit("failed", "failed", "exit-code"), unit("activating", "auto-restart",
			"exit-code"),
		unit("activating", "start", ""),
		{Kubelet: "down"},
		{API: health.NoAnswer},
		{API: health.Answers},
		{API: health.RefusedElsewhere},
		{API: health.RefusedHere},
	}
	verdicts := map[bool]int{}
	for range 5000 {
		var story []is
		for at := 0; at < 80; at += 1 + r.IntN(20) {
			story = append(story, is{at, choices[r.IntN(len(choices))]})
		}
		after, ill := judge(story...)
		if after > limit+settle {
			t.Fatalf("it knew after %s: %+v", after, story)
		}
		if ill != nil && (len(ill.Problems) == 0 || ill.Problems[0] == "" || ill.Unconfirmed && len(ill.Units) > 0) {
			t.Fatalf("%+v: %+v", ill, story)
		}
		verdicts[ill == nil]++
	}
	if verdicts[true] < 500 || verdicts[false] < 500 {
		t.Errorf("the stories are one-sided: %v", verdicts)
	}
}

func TestTheUnitsOfAChange(t *testing.T) {
	file := func(p string) host.Step {
		return host.Step{Verb: host.Write, Target: p, After: host.Value{Entry: host.Entry{Kind: host.File}}}
	}
	for says, c := range map[string]struct {
		steps []host.Step
		want  string
	}{
		"what is enabled, reloaded and restarted": {[]host.Step{{Verb: host.Enable, Target: "a.service"}, {Verb: host.Reload, Target: "b.service"}, {Verb: host.Restart, Target: "c.service"}}, "a.service b.service c.service"},
		"what has a new file or drop-in":          {[]host.Step{file("/etc/systemd/system/a.timer"), file("/etc/systemd/system/b.service.d/10.conf")}, "a.timer b.service"},
		"no other file":                           {[]host.Step{file("/etc/motd"), file("/etc/systemd/system/x.wants/y.service"), file("/etc/systemd/system/b.service.d/README")}, ""},
		"nothing that goes":                       {[]host.Step{{Verb: host.Disable, Target: "a.service"}, {Verb: host.Remove, Target: "/etc/systemd/system/a.service"}}, ""},
		"nothing that is masked":                  {[]host.Step{{Verb: host.MakeLink, Target: "/etc/systemd/system/a.service", After: host.Value{Entry: host.Entry{Kind: host.Link, Target: "/dev/null"}}}, file("/etc/systemd/system/a.service.d/1.conf")}, ""},
		"no template, but its instances":          {[]host.Step{file("/etc/systemd/system/echo@.service"), {Verb: host.Enable, Target: "echo@.service"}, {Verb: host.Enable, Target: "echo@one.service"}}, "echo@one.service"},
	} {
		t.Run(says, func(t *testing.T) {
			if got := strings.Join(health.UnitsOf(host.Record{Steps: c.steps}), " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
