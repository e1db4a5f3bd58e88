package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

var update = flag.Bool("update", false, "write what the plans are now into testdata")

// TestPlansRead compares the plan of each file in testdata with what it says. A file has the two configs (MachineConfig
// specs), maybe a disruption policy, and the plan on a machine that is in the first config.
func TestPlansRead(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var plans, back *txtar.File
			configs := map[string]plan.Config{}
			rules := plan.Rules{Policy: disruption.Default()}
			for i := range ar.Files {
				switch f := &ar.Files[i]; f.Name {
				case "plan":
					plans = f
				case "back":
					back = f
				case "policy.yaml":
					rules.Policy = policyOf(t, f)
				default:
					configs[f.Name] = configOf(t, f)
				}
			}
			p := planFor(t, configs["from.yaml"], configs["to.yaml"], rules)
			check(t, name, ar, plans, p.String())
			if back != nil {
				check(t, name, ar, back, p.Inverse().String())
			}
		})
	}
}

func check(t *testing.T, name string, ar *txtar.Archive, want *txtar.File, got string) {
	t.Helper()
	if *update {
		want.Data = []byte(got)
		if err := os.WriteFile(name, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want.Data), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func configOf(t *testing.T, f *txtar.File) plan.Config {
	t.Helper()
	var spec mcfgv1.MachineConfigSpec
	if err := yaml.UnmarshalStrict(f.Data, &spec); err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	c, err := machineconfig.Parse(spec)
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	return plan.Config{Name: "rendered-worker-" + strings.TrimSuffix(f.Name, ".yaml"), Config: c}
}

func policyOf(t *testing.T, f *txtar.File) disruption.Policy {
	t.Helper()
	var spec operatorv1.NodeDisruptionPolicyConfig
	if err := yaml.UnmarshalStrict(f.Data, &spec); err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	policy, err := disruption.FromSpec(spec)
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	return policy
}

// planFor brings a machine to the first config and plans the way to the second.
func planFor(t *testing.T, from, to plan.Config, rules plan.Rules) plan.Plan {
	t.Helper()
	m := hosttest.NewMachine()
	m.Put(vendorDir+"image.service", "[Service]\nExecStart=/bin/image\n")
	h := m.Host()
	accounts, err := apply.Accounts(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	first := plan.NewTransition(plan.Config{}, from, rules, accounts)
	first.Decision = disruption.Decision{}
	start, contents := first.Plan(observe(t, h, first.Scope()), []byte(from.Name))
	done, err := (apply.Runner{Host: h}).Run(t.Context(), start, contents)
	if err != nil || done.Why != nil {
		t.Fatal(err, done.Why)
	}
	if accounts, err = apply.Accounts(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	way := plan.NewTransition(from, to, rules, accounts)
	p, _ := way.Plan(observe(t, h, way.Scope()), []byte(to.Name))
	return p
}

func observe(t *testing.T, h host.Host, scope plan.Scope) host.State {
	t.Helper()
	s, err := apply.Observe(t.Context(), h, scope)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
