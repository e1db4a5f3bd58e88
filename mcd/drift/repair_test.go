package drift_test

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

const cheap = "/etc/containers/policy.json"

// fight lets somebody change a file and the daemon repair it, again and again. It returns how often it was repaired,
// and what was said in the end.
func (n *node) fight(begin time.Time, every time.Duration, times int) (repairs int, last drift.Decision) {
	for i := range times {
		n.write(cheap, "theirs")
		last = n.decide(begin.Add(time.Duration(i) * every))
		if len(last.Repair.Steps) > 0 {
			repairs++
			n.Observed = walked(n.Observed, last.Repair)
			if rest := n.look(); len(rest) > 0 {
				n.t.Fatalf("it is not repaired: %v", rest)
			}
			n.decide(begin.Add(time.Duration(i)*every + time.Second))
		}
	}
	return repairs, last
}

func TestAFightEndsInDegraded(t *testing.T) {
	n := newNode(t, usual)
	n.rules("/etc/**", "Repair")
	repairs, last := n.fight(noon, time.Minute, 8)
	if repairs != 3 {
		t.Errorf("it was repaired %d times", repairs)
	}
	reason := last.Reason("rendered-worker-1")
	for _, want := range []string{"unexpected on-disk state validating against rendered-worker-1: content mismatch " +
		"for file", "repaired it 3 times since 2026-01-02T12:00:00Z", "another program writes it"} {
		if !strings.Contains(reason, want) {
			t.Errorf("the reason does not say %q: %s", want, reason)
		}
	}

	d := n.decide(noon.Add(24 * time.Hour))
	if len(d.Repair.Steps) > 0 || d.Results[0].Action != v1alpha1.DriftDegrade {
		t.Error("the fight begins again by itself, the next day")
	}

	n.contents = nil
	n.Observed = newNode(t, usual).Observed
	if d := n.decide(noon.Add(25 * time.Hour)); len(d.Results) > 0 || len(d.Memory.Things) > 0 {
		t.Errorf("what is right again is remembered: %+v", d.Memory)
	}
	n.contents = map[string]string{}
	if repairs, _ := n.fight(noon.Add(26*time.Hour), time.Minute, 1); repairs != 1 {
		t.Error("after a person put it right, it is repaired no more")
	}
}

func TestWhoComesRarelyIsRepairedForEver(t *testing.T) {
	n := newNode(t, usual)
	n.rules("/etc/**", "Repair")
	if repairs, _ := n.fight(noon, 10*time.Minute, 50); repairs != 50 {
		t.Errorf("repaired %d times of 50", repairs)
	}
}

func TestALimitCountsWhoeverRemembers(t *testing.T) {
	n := newNode(t, usual)
	n.rules("/etc/**", "Repair")
	n.Policy.Rules[0].Limit = drift.Limit{Interval: time.Hour, Burst: 1}
	if repairs, _ := n.fight(noon, time.Minute, 5); repairs != 1 {
		t.Errorf("repaired %d times", repairs)
	}
}

// TestACrashLoopRepairsAFewTimesOnly: the memory is written before the repair, and the daemon dies in it each time.
func TestACrashLoopRepairsAFewTimesOnly(t *testing.T) {
	n := newNode(t, usual)
	n.rules("/etc/**", "Repair")
	n.write(cheap, "theirs")
	tried := 0
	for i := range 100 {
		if d := n.decide(noon.Add(time.Duration(i) * time.Second)); len(d.Repair.Steps) > 0 {
			tried++
		}
	}
	if tried != 3 {
		t.Errorf("it was tried %d times", tried)
	}
}

// TestRepairThenObserveIsNoDrift: whatever is changed on a machine, once all is repaired nothing differs, and nothing
// that nobody asked about was touched.
func TestRepairThenObserveIsNoDrift(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 6))
		n := newNode(t, usual)
		n.Rules = disruption.Policy{
			Files:  []disruption.Rule{{Name: "/etc"}, {Name: "/var"}, {Name: "/home"}},
			SSHKey: []disruption.Action{{Type: disruption.ActionNone}},
		}
		for i := range n.Rules.Files {
			n.Rules.Files[i].Actions = n.Rules.SSHKey
		}
		for u := range n.Wanted.Units {
			n.Rules.Units = append(n.Rules.Units, disruption.Rule{Name: u, Actions: n.Rules.SSHKey})
		}
		n.rules("os/*", "Report", "**", "Repair")
		n.vandalise(r)
		before := n.Observed.Clone()
		d := n.decide(noon)
		n.Observed = walked(n.Observed, d.Repair)
		if rest := n.look(); slices.ContainsFunc(rest, func(it drift.Item) bool {
			return it.Kind != v1alpha1.DriftOS
		}) {
			t.Fatalf("seed %d: after\n%swhich was for\n%s\nthere is still %v", seed, d.Repair, words(d), rest)
		}
		for p, e := range n.Observed.Paths {
			if _, ours := n.Wanted.Paths[p]; !ours && before.Paths[p] != e && before.Paths[p].Kind != host.Absent {
				t.Fatalf("seed %d: %s was %s and is %s", seed, p, before.Paths[p], e)
			}
		}
		if len(d.Repair.Refusals) > 0 || d.Repair.Reboots() || d.Repair.Drain {
			t.Fatalf("seed %d: %s", seed, d.Repair)
		}
	}
}

// vandalise changes some of what the config manages.
func (n *node) vandalise(r *rand.Rand) {
	for p := range n.Wanted.Paths {
		if r.IntN(4) > 0 {
			continue
		}
		switch r.IntN(4) {
		case 0:
			n.Observed.Paths[p] = host.Entry{}
		case 1:
			n.Observed.Paths[p] = host.Entry{Kind: host.Link, Target: "/nowhere"}
		case 2:
			n.edit(p, func(e *host.Entry) { e.Mode ^= 0o111 })
		case 3:
			n.Observed.Paths[p] = host.Entry{Kind: host.File, Mode: 0o644, Digest: "else", Owner: host.Owner{UID: 7}}
		}
	}
	for name, u := range n.Observed.Units {
		if w := n.Wanted.Units[name]; w.Enabled != nil && u.Install != "" && r.IntN(3) == 0 {
			u.Enabled = !u.Enabled
			n.Observed.Units[name] = u
		}
	}
	for _, u := range n.Wanted.Users {
		if r.IntN(3) == 0 {
			n.Observed.Users[u.Name] = host.User{}
		}
	}
	for _, g := range n.Wanted.Groups {
		if r.IntN(3) == 0 {
			n.Observed.Groups[g.Name] = host.Group{}
		}
	}
	if r.IntN(3) == 0 {
		n.Observed.OS.Kargs = ""
	}
}

func TestAnUpdateLeavesAloneWhatMayStay(t *testing.T) {
	n := newNode(t, usual)
	n.rules("/etc/motd", "Report", "/etc/app/**", "Ignore", "vendor.service", "Ignore", "os/*", "Ignore", "user/*",
		"Ignore", "group/ops", "Report")
	n.write("/etc/motd", "mine")
	n.write("/etc/app/conf.d/a.conf", "mine")
	n.write("/etc/hosts", "mine")
	n.Observed.Units["vendor.service"] = host.Unit{
		Enabled: true, Install: "WantedBy=multi-user.target",
		Vendor: "WantedBy=multi-user.target",
	}
	n.Observed.OS.Kargs = ""
	core := n.Observed.Users["core"]
	core.Password = "of an administrator"
	n.Observed.Users["core"] = core
	n.Observed.Groups["ops"] = host.Group{}
	next := newNode(t, strings.NewReplacer("data:,a\"", "data:,b\"", `"uid":1500`, `"uid":1500,"shell":"/bin/sh"`).
		Replace(usual)).Wanted
	d := n.decide(noon)
	p := d.WithoutTolerated(plan.Diff(n.Observed, plan.Target(n.Observed, n.Wanted, next), plan.DiffOptions{}),
		n.Wanted, next)
	var got []string
	for _, s := range p.Steps {
		got = append(got, s.String())
	}
	for _, want := range []string{
		"write /etc/app/conf.d/a.conf 0644 (contents changed)",
		"write /etc/hosts 0644 (contents changed)",
		"user app 1500:1500 home /home/app shell /bin/sh (shell was /bin/bash)",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("the update does not %q: %q", want, got)
		}
	}
	for _, s := range got {
		if strings.Contains(s, "motd") || strings.Contains(s, "vendor") || strings.Contains(s, "kargs") ||
			strings.Contains(s, "core") || strings.Contains(s, "ops") {
			t.Errorf("the update does %q", s)
		}
	}
	vendor := n.Observed.Units["vendor.service"]
	vendor.AliasOf = "real.service"
	n.Observed.Units["vendor.service"] = vendor
	p = n.decide(noon).WithoutTolerated(plan.Plan{
		Steps: []plan.Step{{Verb: host.Disable, Target: "real.service"}},
	}, n.Wanted, next)
	if len(p.Steps) > 0 {
		t.Errorf("under its own name, the update does %v", p.Steps)
	}
}

// TestARepairOfANestedConfigHasItsActions: the item is in a config that another one merges.
func TestARepairOfANestedConfigHasItsActions(t *testing.T) {
	nested := base64.StdEncoding.EncodeToString([]byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[` +
		`{"path":"/etc/containers/policy.json","contents":{"source":"data:,policy"}}]}}`))
	for sentence, more := range map[string]string{
		"alone":                     `"users":[]`,
		"beside the keys of a user": `"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA a"]}]`,
	} {
		n := newNode(t, `"ignition":{"config":{"merge":[{"source":"data:;base64,`+nested+`"}]}},"passwd":{`+more+`}`)
		n.rules("/etc/**", "Repair")
		n.write("/etc/containers/policy.json", "mine")
		var got []string
		for _, s := range n.decide(noon).Repair.Steps {
			got = append(got, s.String())
		}
		if !slices.Contains(got, "reload crio.service") {
			t.Errorf("%s: the repair does %q", sentence, got)
		}
	}
}

func TestWhatIsAsTheNextConfigWantsItHasNotDrifted(t *testing.T) {
	n := newNode(t, usual)
	next := newNode(t, strings.Replace(usual, "data:,a\"", "data:,b\"", 1)).Wanted
	n.write("/etc/app/conf.d/a.conf", "b")
	if items := drift.Items(n.Observed, n.Wanted, next); len(items) > 0 {
		t.Error(items)
	}
	if items := drift.Items(n.Observed, n.Wanted, n.Wanted); len(items) != 1 {
		t.Error(items)
	}
}

func TestAFileThatAUserDeletedAndTheNextConfigDropsHasNotDrifted(t *testing.T) {
	n := newNode(t, usual)
	next := newNode(t, `"systemd":{"units":[]}`).Wanted
	n.Observed.Paths["/etc/app/conf.d/a.conf"] = host.Entry{}
	if items := drift.Items(n.Observed, n.Wanted, next); len(items) > 0 {
		t.Error(items)
	}
	if items := drift.Items(n.Observed, n.Wanted, n.Wanted); len(items) != 1 {
		t.Error(items)
	}
}

func TestAClockThatWasWrongAndIsSetBackIsForgotten(t *testing.T) {
	n := newNode(t, usual)
	n.rules("/etc/**", "Repair")
	if repairs, _ := n.fight(noon.AddDate(70, 0, 0), time.Minute, 3); repairs != 3 {
		t.Fatal(repairs)
	}
	n.decide(noon) // all is well when the clock is set
	if repairs, last := n.fight(noon.AddDate(0, 0, 1), time.Minute, 1); repairs != 1 {
		t.Errorf("a day later it is repaired %d times: %s", repairs, words(last))
	}
}

func TestWhatCannotBeReadMayBeASecret(t *testing.T) {
	n := newNode(t, usual)
	n.write(cheap, "theirs")
	n.look()
	d := drift.Decide(n.Facts, noon)
	if d.Results[0].Secret {
		t.Fatal("it is no secret")
	}
	n.Facts.Files = map[string]drift.Observed{cheap: {Unread: true}}
	if d = drift.Decide(n.Facts, noon); !d.Results[0].Secret {
		t.Error("a digest of nobody knows what is told")
	}
}

func TestAnActionThatNobodyKnowsDegrades(t *testing.T) {
	all := []v1alpha1.DriftPolicy{
		{Spec: v1alpha1.DriftPolicySpec{Rules: []v1alpha1.DriftRule{{Path: "**", Action: "Fix"}}}},
	}
	p, err := drift.Select(all, "worker", nil)
	if err == nil || !strings.Contains(err.Error(), `"Fix" is none of`) || len(p.Rules) != 1 ||
		p.Rules[0].Action != v1alpha1.DriftDegrade {
		t.Errorf("%+v, %v", p, err)
	}
}
