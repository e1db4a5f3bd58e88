package forecast_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

var (
	pairs = flag.Int("pairs", 1500, "how many random pairs of configs are forecast and applied; 5000 take about 20 "+
		"s of CPU")
	seed = flag.Uint64("seed", 1, "the seed of the random pairs")
)

// TestRandomChangesAreForecast holds the forecast of random pairs of configs, merged and hostile ones included, against
// a machine: what is refused, the plan, and the steps that are executed. Only what a node checks itself may be refused
// besides.
func TestRandomChangesAreForecast(t *testing.T) {
	var n counts
	var from machineconfig.Config
	var c change
	var at uint64
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pair %d of seed %d:\nfrom %s\nto   %s", at, *seed, specText(c.from), specText(c.to))
		}
	})
	for i := range uint64(*pairs) { //nolint:gosec // a count
		m := maker{Rand: rand.New(rand.NewPCG(*seed, i)), hostile: i%4 == 0}
		if i%32 == 0 { // to find one takes longer than to leave it
			from = inForce(t, maker{Rand: rand.New(rand.NewPCG(*seed+1, i))})
		}
		at, c = i, change{policy: house, from: from, to: randomSpec(t, m)}
		if i%8 == 1 {
			c.overrides = disruption.Overrides{OpenShift: true}
		}
		if i%3 == 0 {
			c.policy = disruption.Default()
		}
		c.plain = i%5 == 0
		if !holds(t, c, &n) {
			t.FailNow()
		}
	}
	t.Logf("%+v", n)
	if *pairs >= 5000 && (n.Applied < *pairs/4 || n.Refused < *pairs/10 || n.OnNode < 50 || n.System < 100 ||
		n.Unsafe < 20 || n.Merged < 500) {
		t.Error("the test has lost its subject")
	}
}

// counts say what became of the pairs.
type counts struct{ Applied, Refused, OnNode, System, Unsafe, Merged int }

// holds tells whether one forecast is what happens.
func holds(t *testing.T, c change, n *counts) bool {
	t.Helper()
	if config := c.to.Ignition.Ignition.Config; len(config.Merge) > 0 || config.Replace.Source != nil {
		n.Merged++
	}
	if len(machineconfig.Check(c.to)) > 0 {
		n.Unsafe++ // neither `validate` nor the daemon takes it
		return true
	}
	said := reviewOf(t, c)
	done := walk(t, c)
	n.System += systemChecked(t, c, said, done)
	for _, r := range done.plan.Refusals {
		if r.Check != "" {
			n.OnNode++
		}
	}
	if slices.ContainsFunc(done.plan.Refusals, func(r disruption.Refusal) bool { return r.Check != "" }) {
		var decided []string
		for _, r := range done.plan.Refusals {
			if r.Check == "" {
				decided = append(decided, r.Field+": "+r.Why)
			}
		}
		if strings.Join(decided, "\n") != strings.Join(said.Refused, "\n") || done.changed || len(done.log) > 0 {
			t.Errorf("said %q, refused %q", said.Refused, decided)
		}
		return !t.Failed()
	}
	if len(said.Refused) > 0 {
		n.Refused++
	} else {
		n.Applied++
	}
	agree(t, said, done)
	explained(t, c, said, done, false) // a machine may have an item already
	if len(said.Refused) == 0 {
		arrived(t, c, done.machine)
	}
	return !t.Failed()
}

// systemChecked checks that a machine whose OS cannot change refuses exactly the parts that the review marks as checked
// on the node, and that another machine refuses none of them. It returns the number of these refusals.
func systemChecked(t *testing.T, c change, said forecast, done deed) int {
	t.Helper()
	var marked, refused []string
	for _, field := range []string{"osImageURL", "kernelType", "kernelArguments", "extensions"} {
		if c.plain && slices.ContainsFunc(said.CheckedOnNode, func(text string) bool {
			return strings.HasPrefix(text, field+" needs ")
		}) {
			marked = append(marked, field)
		}
	}
	for _, r := range done.plan.Refusals {
		if r.Check == disruption.CheckSystem {
			refused = append(refused, r.Field)
		}
	}
	if !slices.Equal(marked, refused) {
		t.Errorf("marked as checked on the node: %q; refused by the node: %q", marked, refused)
	}
	return len(refused)
}

// arrived checks that nothing was skipped: the machine has each file of the new config, no file that only the old one
// had, and another update to the same config has nothing to do.
func arrived(t *testing.T, c change, m *hosttest.Machine) {
	t.Helper()
	from, to := disruption.Running(c.from, c.to)
	wanted := map[string]bool{}
	for _, f := range to.Ignition.Storage.Files {
		wanted[f.Path] = true
		want, err := machineconfig.Contents(f.Contents)
		if machineconfig.IsRemote(f.Contents) {
			want, err = []byte(downloaded), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if is, err := m.Host().Files.Read(f.Path); f.Contents.Source != nil && len(f.Append) == 0 &&
			(err != nil || string(is) != string(want)) {
			t.Errorf("%s has %q, %v", f.Path, is, err)
		}
	}
	for _, l := range to.Ignition.Storage.Links {
		wanted[l.Path] = true
	}
	base := machine()
	for _, f := range from.Ignition.Storage.Files {
		if _, err := base.Host().Files.Read(f.Path); err == nil || wanted[f.Path] || keys(to, f.Path) {
			continue
		}
		if is, err := m.Host().Files.Stat(f.Path); err == nil && is.Kind == host.File && !strings.HasPrefix(f.Path,
			host.UnitDir) {
			t.Errorf("%s is still there", f.Path)
		}
	}
	b := plan.Config{Name: "rendered-b", Config: c.to}
	if p, _ := planOn(t, m, b, b, plan.Rules{Policy: c.policy, Overrides: c.overrides}); len(p.Steps)+
		len(p.Refusals) > 0 {
		t.Errorf("the same config again: %s", p)
	}
}

// keys tells that a path is that of a user's keys.
func keys(c machineconfig.Config, path string) bool {
	return strings.Contains(path, "/.ssh/authorized_keys") && len(c.Ignition.Passwd.Users) > 0
}

// randomSpec is a config that Ignition itself takes.
func randomSpec(t *testing.T, m maker) machineconfig.Config {
	t.Helper()
	for {
		text, err := json.Marshal(m.spec())
		if err != nil {
			t.Fatal(err)
		}
		var spec mcfgv1.MachineConfigSpec
		if err := json.Unmarshal(text, &spec); err != nil {
			t.Fatal(err)
		}
		if c, err := machineconfig.Parse(spec); err == nil {
			return c
		}
	}
}

// inForce is a config that a machine can be in: one that it takes when it has nothing yet.
func inForce(t *testing.T, m maker) machineconfig.Config {
	t.Helper()
	for range 20 {
		c := randomSpec(t, m)
		c.FIPS = false
		if len(machineconfig.Check(c))+len(disruption.Invalid(c)) > 0 {
			continue
		}
		p, _ := planOn(t, machine(), plan.Config{}, plan.Config{Name: "rendered-a", Config: c},
			plan.Rules{Policy: house})
		if len(p.Refusals) == 0 {
			return c
		}
	}
	return machineconfig.Config{HasIgnition: true}
}

// downloaded are the contents of remote files, which every machine has in its store.
const downloaded = "from the network"

func machine() *hosttest.Machine {
	m := hosttest.NewMachine()
	m.Put(host.ContentDir+"/"+string(host.DigestOf([]byte(downloaded))), downloaded)
	m.Put("/usr/lib/systemd/system/drains.service", "[Install]\nWantedBy=multi-user.target\n")
	return m
}

// specText is a config as somebody can read it.
func specText(c machineconfig.Config) string {
	spec, err := c.Spec()
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
