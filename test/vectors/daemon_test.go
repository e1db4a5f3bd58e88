package vectors_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/distribution"
)

// daemonVectors are answers of the original's daemon.
type daemonVectors struct {
	Actions []struct {
		Case                       string
		Old, New                   mcfgv1.MachineConfigSpec
		Policy                     *operatorv1.NodeDisruptionPolicyClusterStatus
		Actions                    []operatorv1.NodeDisruptionPolicyStatusAction
		ChangedFiles, ChangedUnits []string
		Drain                      bool
	}
	DefaultPolicies operatorv1.NodeDisruptionPolicyClusterStatus
	Kargs           []struct{ Old, New, ParsedNew, RpmOstreeKargsArgs []string }
}

// actionExceptions are the cases in which we decide otherwise.
var actionExceptions = exceptions{
	"dir change only (unreachable)": "the original refuses directories before it asks what they cost; we take them " +
		"in place, by the rules of their path",
	"file order only": "the original gives an empty list of actions, we give None as for any other change that costs " +
		"nothing; both do nothing",
}

func TestActionsAgreeWithTheOriginal(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load[daemonVectors](t, "daemon.json").Actions {
		t.Run(c.Case, func(t *testing.T) {
			p := disruption.Default()
			if c.Policy != nil {
				var err error
				if p, err = disruption.FromStatus(
					operatorv1.NodeDisruptionPolicyStatus{ClusterPolicies: *c.Policy}); err != nil {
					t.Fatal(err)
				}
			}
			got := disruption.Decide(parse(t, c.Old), parse(t, c.New), p)
			if diff := cmp.Diff(resolved(c.Actions), got.Actions); diff != "" {
				actionExceptions.differs(t, c.Case, seen, "actions differ (-original +ours):\n%s", diff)
			}
			if got.Drain != c.Drain {
				actionExceptions.differs(t, c.Case, seen, "drain is %v, the original's is %v", got.Drain, c.Drain)
			}
			for kind, want := range map[disruption.ChangeKind][]string{
				disruption.KindFile: c.ChangedFiles,
				disruption.KindUnit: c.ChangedUnits,
			} {
				slices.Sort(want) // the original's order is that of a Go map
				if diff := cmp.Diff(want, names(got, kind), cmpopts.EquateEmpty()); diff != "" {
					actionExceptions.differs(t, c.Case, seen, "changes of kind %s differ (-original +ours):\n%s", kind,
						diff)
				}
			}
		})
	}
	actionExceptions.settle(t, seen)
}

// resolved reads the original's actions. It leaves Special for the daemon to interpret at the last moment, as a reload
// of crio; a Decision has that done.
func resolved(in []operatorv1.NodeDisruptionPolicyStatusAction) []disruption.Action {
	out := []disruption.Action{}
	for _, a := range in {
		next := disruption.Action{Type: disruption.ActionType(a.Type)}
		switch {
		case a.Reload != nil:
			next.Service = string(a.Reload.ServiceName)
		case a.Restart != nil:
			next.Service = string(a.Restart.ServiceName)
		case next.Type == disruption.ActionSpecial:
			next = disruption.Action{Type: disruption.ActionReload, Service: "crio.service"}
		}
		out = append(out, next)
	}
	return out
}

func names(d disruption.Decision, kind disruption.ChangeKind) (out []string) {
	for _, i := range d.Items {
		if i.Kind == kind {
			out = append(out, i.Name)
		}
	}
	return out
}

// TestTheDefaultPolicyBeginsAsTheOriginals: ours adds rules for its own daemon, for drop-ins of registries.conf, and
// for distributions other than OpenShift.
func TestTheDefaultPolicyBeginsAsTheOriginals(t *testing.T) {
	want := load[daemonVectors](t, "daemon.json").DefaultPolicies
	ours := disruption.Default().Status().ClusterPolicies
	added := slices.Clone(ours.Files[len(want.Files):])
	ours.Files, ours.Units = ours.Files[:len(want.Files)], slices.DeleteFunc(slices.Clone(ours.Units),
		func(u operatorv1.NodeDisruptionPolicyStatusUnit) bool {
			return strings.HasPrefix(string(u.Name), "machine-config-daemon")
		})
	if diff := cmp.Diff(want, ours); diff != "" {
		t.Errorf("the default policy differs (-original +ours):\n%s", diff)
	}
	for _, file := range added {
		own := strings.HasSuffix(file.Path, "/bin/machine-config-daemon") ||
			strings.HasPrefix(file.Path, "/etc/machine-config-daemon/")
		others := slices.ContainsFunc(distribution.Distributions(), func(k distribution.Kubernetes) bool {
			return slices.ContainsFunc(k.Live, func(live distribution.Live) bool { return live.Path == file.Path })
		})
		if !own && !others && file.Path != disruption.RegistriesDropIns {
			t.Errorf("the rule for %s is neither for the daemon, nor for another distribution, nor for documents "+
				"about registries", file.Path)
		}
	}
}

func TestKargsAgreeWithTheOriginal(t *testing.T) {
	for _, c := range load[daemonVectors](t, "daemon.json").Kargs {
		if diff := cmp.Diff(c.ParsedNew, machineconfig.SplitKargs(c.New)); diff != "" {
			t.Errorf("%q: arguments differ (-original +ours):\n%s", c.New, diff)
		}
	}
}
