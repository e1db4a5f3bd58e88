package kstatus_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	upstream "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

var update = flag.Bool("update", false, "rewrite config/argocd/argocd-cm.yaml")

const argocd = "../../config/argocd/"

// kinds have a status that Argo CD shows.
var kinds = []string{
	"bunsen.dev_GitSource", "bunsen.dev_BunsenStatus", "bunsen.dev_Notification", "bunsen.dev_ProvisioningToken",
	"machineconfiguration.openshift.io_MachineConfigPool",
}

// healthOf runs the Lua check as Argo CD does: without any library of Lua that reaches out of it.
func healthOf(t *testing.T, script string, o map[string]any) (health, message string) {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
	} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	l.SetGlobal("obj", luaOf(l, o))
	if err := l.DoString(script); err != nil {
		t.Fatalf("running the check: %v", err)
	}
	result, is := l.Get(-1).(*lua.LTable)
	if !is {
		t.Fatal("the check returns no table")
	}
	return lua.LVAsString(result.RawGetString("status")), lua.LVAsString(result.RawGetString("message"))
}

func luaOf(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		out := l.NewTable()
		for key, x := range v {
			out.RawSetString(key, luaOf(l, x))
		}
		return out
	case []any:
		out := l.NewTable()
		for _, x := range v {
			out.Append(luaOf(l, x))
		}
		return out
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}

// mapOf returns an object as the API server sends it.
func mapOf(t *testing.T, o any) map[string]any {
	t.Helper()
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What `bunsen why` says of a pool, kstatus and Argo CD say too.
func TestAVerdictIsTheSameForEveryTool(t *testing.T) {
	script, err := os.ReadFile(argocd + "health.lua")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for outcome, want := range map[v1alpha1.Outcome][2]string{
		v1alpha1.OutcomeFine:        {"Current", "Healthy"},
		v1alpha1.OutcomeProgressing: {"InProgress", "Progressing"},
		v1alpha1.OutcomeWaiting:     {"InProgress", "Progressing"},
		v1alpha1.OutcomeBlocked:     {"Failed", "Degraded"},
		v1alpha1.OutcomeUnknown:     {"Failed", "Degraded"},
		v1alpha1.OutcomeDegraded:    {"Failed", "Degraded"},
	} {
		// A verdict follows on each other one, so that no condition of it may stay.
		for _, before := range v1alpha1.Outcomes {
			t.Run(string(outcome)+" after "+string(before), func(t *testing.T) {
				verdict := func(o v1alpha1.Outcome) v1alpha1.Verdict {
					return v1alpha1.Verdict{Kind: "MachineConfigPool", Name: "worker", Outcome: o, Message: "because"}
				}
				pool := &mcfgv1.MachineConfigPool{
					TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigPool"},
					ObjectMeta: metav1.ObjectMeta{Name: "worker", Generation: 3},
				}
				pool.Status = status.Judged(mcfgv1.MachineConfigPoolStatus{ObservedGeneration: 3}, verdict(before), now)
				pool.Status = status.Judged(pool.Status, verdict(outcome), now)
				cluster := &v1alpha1.BunsenStatus{
					TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BunsenStatus"},
					ObjectMeta: metav1.ObjectMeta{Name: "cluster", Generation: 1},
				}
				for _, o := range []v1alpha1.Outcome{before, outcome} {
					cluster.Status = status.Cluster(cluster.Status, status.ClusterFacts{
						Generation: 1, Verdicts: []v1alpha1.Verdict{verdict(o)},
					}, now)
				}
				for _, o := range []map[string]any{mapOf(t, pool), mapOf(t, cluster)} {
					got, err := upstream.Compute(&unstructured.Unstructured{Object: o})
					if err != nil {
						t.Fatal(err)
					}
					health, _ := healthOf(t, string(script), o)
					if string(got.Status) != want[0] || health != want[1] {
						t.Errorf("%s: kstatus says %s, Argo CD %s; want %s: %v", o["kind"], got.Status, health, want, o)
					}
				}
			})
		}
	}
}

// Each state of each kind, with what Argo CD shows.
func TestTheHealthOfEachKind(t *testing.T) {
	script, err := os.ReadFile(argocd + "health.lua")
	if err != nil {
		t.Fatal(err)
	}
	for sentence, tt := range map[string]struct{ object, health, message string }{
		"a new object": {"metadata: {generation: 1}", "Progressing", "the controller has not seen it yet"},
		"a change that nobody has seen": {
			"{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}}",
			"Progressing", "the controller has not seen the newest change yet",
		},
		"a source that is suspended": {
			"{spec: {suspend: true}, " +
				"status: {conditions: [{type: Ready, status: 'False', reason: Suspended, message: by ada}]}}",
			"Suspended", "by ada",
		},
		"a paused pool": {"{spec: {paused: true}, status: {}}", "Suspended", ""},
		"a commit that is refused": {
			"{status: {conditions: [{type: Ready, status: 'False'}, " +
				"{type: Stalled, status: 'True', message: a.bu:3}]}}",
			"Degraded", "a.bu:3",
		},
		"a source that tries again": {
			"{status: {conditions: [{type: Ready, status: 'False'}, " +
				"{type: Reconciling, status: 'True', message: again}]}}",
			"Progressing", "again",
		},
		"a Secret that is missing": {"{status: {conditions: [{type: Ready, status: 'False', message: gone}]}}", "Degraded", "gone"},
		"all is well":              {"{status: {conditions: [{type: Ready, status: 'True'}]}}", "Healthy", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			var o map[string]any
			if err := yaml.Unmarshal([]byte(tt.object), &o); err != nil {
				t.Fatal(err)
			}
			if o["metadata"] == nil {
				o["metadata"] = map[string]any{"generation": float64(1)}
			}
			if health, message := healthOf(t, string(script), o); health != tt.health || message != tt.message {
				t.Errorf("%s %q, want %s %q", health, message, tt.health, tt.message)
			}
		})
	}
}

// The patch that people apply has the tested check for each kind.
func TestThePatchOfArgoCD(t *testing.T) {
	script, err := os.ReadFile(argocd + "health.lua")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("# The health of Bunsen's objects for Argo CD, made from health.lua. It is a patch:\n" +
		"# kubectl -n argocd patch configmap argocd-cm --patch-file argocd-cm.yaml\ndata:\n")
	for _, kind := range kinds {
		fmt.Fprintf(&want, "  resource.customizations.health.%s: |\n", kind)
		for line := range strings.Lines(string(script)) {
			if strings.TrimSpace(line) != "" {
				want.WriteString("    ")
			}
			want.WriteString(line)
		}
	}
	if *update {
		if err := os.WriteFile(argocd+"argocd-cm.yaml", []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(argocd + "argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Error("config/argocd/argocd-cm.yaml is not what health.lua says: go test ./test/kstatus -update")
	}
	var patch struct{ Data map[string]string }
	if err := yaml.UnmarshalStrict(got, &patch); err != nil || len(patch.Data) != len(kinds) ||
		patch.Data["resource.customizations.health."+kinds[0]] != string(script) {
		t.Errorf("the patch has %d kinds: %v", len(patch.Data), err)
	}
}
