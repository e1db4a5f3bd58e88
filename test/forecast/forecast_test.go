package forecast_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// forecast is a review's JSON of one pool, as a program would read it.
type forecast struct {
	Disruption string
	Actions    []action
	Items      []struct {
		Kind, Path, Change string
		Actions            []action
	}
	Refused, NewNodesOnly, CheckedOnNode []string
}

type action struct{ Type, Service string }

// TestWhatAReviewSaysIsWhatTheDaemonDoes compares the forecast of each change, and of each of its items alone, with
// what a machine records that goes through it.
func TestWhatAReviewSaysIsWhatTheDaemonDoes(t *testing.T) {
	all := changes(t)
	items := 0
	for _, c := range all {
		t.Run(c.says, func(t *testing.T) {
			said := reviewOf(t, c)
			done := walk(t, c)
			agree(t, said, done)
			explained(t, c, said, done, true)
			if c.whole || len(said.Refused) > 0 || len(said.Items) < 2 {
				items += len(said.Items)
				return
			}
			for _, item := range said.Items {
				items++
				alone := c
				alone.to = only(t, c, disruption.ChangeKind(item.Kind), item.Path)
				one := reviewOf(t, alone)
				if len(one.Items) != 1 || one.Items[0].Path != item.Path || !slices.Equal(one.Items[0].Actions,
					item.Actions) {
					t.Errorf("%s %s alone is said to be %+v, together with others %+v", item.Kind, item.Path, one.Items,
						item)
				}
				agree(t, one, walk(t, alone))
			}
		})
	}
	t.Logf("%d changes with %d items", len(all), items)
	if len(all) < 60 {
		t.Errorf("only %d changes", len(all))
	}
}

// reviewOf compares, prints as JSON, and reads that.
func reviewOf(t *testing.T, c change) forecast {
	t.Helper()
	side := func(name string, config machineconfig.Config) review.Side {
		return review.Side{
			Name: name, Policy: c.policy, Overrides: c.overrides,
			Pools: map[string]review.Pool{"worker": {Rendered: "rendered-" + name, Config: config}},
		}
	}
	text, err := json.Marshal(review.Compare(side("a", c.from), side("b", c.to)))
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Pools []forecast }
	if err := json.Unmarshal(text, &read); err != nil || len(read.Pools) != 1 {
		t.Fatal(err, len(read.Pools))
	}
	return read.Pools[0]
}

// deed is what a machine went through.
type deed struct {
	plan    plan.Plan
	refused []string
	// log is the machine's own record of reloads, restarts and reboots.
	log []string
	// changed tells that something on disk is another than before.
	changed bool
	// machine as it is now.
	machine *hosttest.Machine
}

// walk brings a machine into the first config and lets it go to the second.
func walk(t *testing.T, c change) deed {
	t.Helper()
	m := machine()
	a, b := plan.Config{Name: "rendered-a", Config: c.from}, plan.Config{Name: "rendered-b", Config: c.to}
	begin, contents := planOn(t, m, plan.Config{}, a, plan.Rules{Policy: c.policy})
	begin.Steps = slices.DeleteFunc(begin.Steps, plan.Step.IsAction)
	begin.Refusals = nil // how it came to be in its config is not what is tried
	if done, err := (apply.Runner{Host: m.Host()}).Run(t.Context(), begin, contents); err != nil || done.Why != nil {
		t.Fatal(err, done.Why)
	}
	m.Log = nil
	if c.plain {
		m.Withdraw("it is a plain Linux host")
	}
	before := m.String()
	var d deed
	d.plan, contents = planOn(t, m, a, b, plan.Rules{Policy: c.policy, Overrides: c.overrides})
	runner := apply.Runner{Host: m.Host()}
	done, err := runner.Run(t.Context(), d.plan, contents)
	if errors.Is(err, apply.ErrRefused) {
		for _, r := range d.plan.Refusals {
			d.refused = append(d.refused, r.Field+": "+r.Why)
		}
	} else if err != nil || done.Why != nil {
		t.Fatal(err, done.Why)
	}
	if done.End == apply.Rebooting {
		if end, err := runner.Recover(t.Context()); err != nil || end.End != apply.New {
			t.Fatal(end, err)
		}
	}
	d.log, d.changed, d.machine = m.Log, m.String() != before, m
	return d
}

func planOn(t *testing.T, m *hosttest.Machine, from, to plan.Config,
	rules plan.Rules,
) (plan.Plan, map[host.Digest][]byte) {
	t.Helper()
	accounts, err := apply.Accounts(t.Context(), m.Host())
	if err != nil {
		t.Fatal(err)
	}
	way := plan.NewTransition(from, to, rules, accounts)
	observed, err := apply.Observe(t.Context(), m.Host(), way.Scope())
	if err != nil {
		t.Fatal(err)
	}
	return way.Plan(observed, []byte(to.Name))
}

// agree compares the forecast with the machine's record: every action in its order and as often as it is said, and a
// reboot is all there is. A unit that goes is stopped in place of its reload or restart, unless the machine has a unit
// of its own with that name.
func agree(t *testing.T, said forecast, done deed) {
	t.Helper()
	if diff := cmp.Diff(said.Refused, done.refused, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what is refused: -said +done:\n%s", diff)
	}
	if len(said.Refused) > 0 {
		if done.changed || len(done.log) > 0 {
			t.Errorf("it was refused, and yet something was done: %q", done.log)
		}
		return
	}
	if diff := cmp.Diff(logOf(said, done), done.log, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the machine's record: -said +done:\n%s", diff)
	}
	if said.Disruption != done.plan.Disruption.String() {
		t.Errorf("disruption is said to be %s and is %s", said.Disruption, done.plan.Disruption)
	}
	drains := said.Disruption == "drain" || said.Disruption == "reboot"
	if drains != done.plan.Drain {
		t.Errorf("drain is said to be %t and is %t", drains, done.plan.Drain)
	}
}

// logOf is the record of a machine that does what is said.
func logOf(said forecast, done deed) (log []string) {
	for _, a := range said.Actions {
		switch a.Type {
		case "Reboot":
			return []string{"reboot: machine config rendered-b"}
		case "DaemonReload":
			log = append(log, "daemon-reload")
		case "Reload", "Restart":
			verb := strings.ToLower(a.Type)
			if said.removes(a.Service) && isMissing(done.machine, a.Service) {
				verb = "stop"
			}
			log = append(log, verb+" "+a.Service)
		}
	}
	return log
}

func (f forecast) removes(unit string) bool {
	for _, item := range f.Items {
		if item.Kind == string(disruption.KindUnit) && item.Path == unit && item.Change == string(disruption.Removed) {
			return true
		}
	}
	return false
}

func isMissing(m *hosttest.Machine, unit string) bool {
	is, err := m.Host().Units.Status(context.Background(), unit)
	return err == nil && is.Obstacle.Why == host.UnitMissing
}

// explained checks that every step is about an item that was told, and that each item that nodes get has a step.
func explained(t *testing.T, c change, said forecast, done deed, each bool) {
	t.Helper()
	if len(said.Refused) > 0 {
		return
	}
	stepped := make([]bool, len(said.Items))
	for _, s := range done.plan.Steps {
		if s.IsAction() || s.Verb == host.WriteRecord || bookkeeping(s.Target) {
			continue
		}
		known := false
		for i, item := range said.Items {
			if about(c, disruption.ChangeKind(item.Kind), item.Path, s) {
				known, stepped[i] = true, true
			}
		}
		if !known {
			t.Errorf("nobody was told of the step %s", s)
		}
	}
	for i, item := range said.Items {
		if !each {
			break
		}
		later := slices.ContainsFunc(said.NewNodesOnly, func(text string) bool {
			return item.Kind == string(disruption.KindFirstBootKargs) && strings.HasPrefix(text, "kernelArguments") ||
				item.Path != "" && strings.Contains(text, " "+item.Path+":")
		})
		if _, kept := keeps[item.Kind+" "+item.Path]; stepped[i] == later && !(kept && item.Change == "removed") {
			t.Errorf("%s %s: a step is there: %t; for new nodes only: %t", item.Kind, item.Path, stepped[i], later)
		}
	}
}

// keeps are the items that stay on a machine when no config names them any more, though their actions are done.
var keeps = map[string]string{
	"os-image ": "a config without an image keeps the one there is",
}

// homesOf are the home directories that a user may have.
func homesOf(c change, name string) []string {
	homes := []string{"/home/" + name, "/" + name}
	for _, config := range []machineconfig.Config{machineconfig.Flattened(c.from), machineconfig.Flattened(c.to)} {
		for _, u := range config.Ignition.Passwd.Users {
			if u.Name == name && u.HomeDir != nil {
				homes = append(homes, *u.HomeDir)
			}
		}
	}
	return homes
}

// bookkeeping tells the paths that are the daemon's own.
func bookkeeping(p string) bool {
	for _, own := range []string{host.OrigDir, host.NoOrigDir, host.AccountsPath, host.UnitsPath} {
		if p == own || strings.HasPrefix(p, own+"/") {
			return true
		}
	}
	return p == "/etc/machine-config-daemon"
}

// about tells whether a step may come from an item: the thing itself, and the directories in the way to it.
func about(c change, kind disruption.ChangeKind, name string, s host.Step) bool {
	within := func(p string) bool {
		onTheWay := s.Verb == host.MakeDir || s.Verb == host.Remove && s.Before.Entry.Kind == host.Dir
		return s.Target == p || onTheWay && strings.HasPrefix(p, s.Target+"/")
	}
	switch kind {
	case disruption.KindFile, disruption.KindDirectory, disruption.KindLink:
		return within(name)
	case disruption.KindUnit:
		return s.Target == name || within(host.UnitDir+"/"+name) || strings.HasPrefix(s.Target, host.UnitDir+"/"+name+
			".d")
	case disruption.KindUser:
		return s.Target == name || slices.ContainsFunc(homesOf(c, name), func(home string) bool {
			return strings.HasPrefix(s.Target+"/", home+"/") || within(home)
		})
	case disruption.KindGroup:
		return s.Target == name && (s.Verb == host.SetGroup || s.Verb == host.DropGroup)
	}
	return kind == map[host.Verb]disruption.ChangeKind{
		host.SetKargs: disruption.KindKargs, host.SetKernelType: disruption.KindKernelType,
		host.SetExtensions: disruption.KindExtensions, host.SetImage: disruption.KindOSImage,
	}[s.Verb]
}
