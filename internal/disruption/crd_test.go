package disruption_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

func specAction(verb, service string) operatorv1.NodeDisruptionPolicySpecAction {
	a := operatorv1.NodeDisruptionPolicySpecAction{Type: operatorv1.NodeDisruptionPolicySpecActionType(verb)}
	switch {
	case service == "":
	case verb == "Reload":
		a.Reload = &operatorv1.ReloadService{ServiceName: operatorv1.NodeDisruptionPolicyServiceName(service)}
	default:
		a.Restart = &operatorv1.RestartService{ServiceName: operatorv1.NodeDisruptionPolicyServiceName(service)}
	}
	return a
}

func fileSpec(path string,
	actions ...operatorv1.NodeDisruptionPolicySpecAction,
) operatorv1.NodeDisruptionPolicySpecFile {
	return operatorv1.NodeDisruptionPolicySpecFile{Path: path, Actions: actions}
}

func TestUsersRulesReplaceTheDefaultsOfTheirNameAndJoinTheRest(t *testing.T) {
	p, err := disruption.FromSpec(operatorv1.NodeDisruptionPolicyConfig{
		Files: []operatorv1.NodeDisruptionPolicySpecFile{fileSpec("/etc/containers/policy.json",
			specAction("None", "")), fileSpec("/etc/app", specAction("Restart", "app.service"))},
		Units: []operatorv1.NodeDisruptionPolicySpecUnit{{
			Name:    "app.service",
			Actions: []operatorv1.NodeDisruptionPolicySpecAction{specAction("DaemonReload", "")},
		}},
		SSHKey: operatorv1.NodeDisruptionPolicySpecSSHKey{Actions: []operatorv1.NodeDisruptionPolicySpecAction{
			specAction("Reboot", ""),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := disruption.Default()
	i := slices.IndexFunc(want.Files, func(r disruption.Rule) bool { return r.Name == "/etc/containers/policy.json" })
	want.Files[i].Actions = []disruption.Action{{Type: disruption.ActionNone}}
	want.Files = append(want.Files,
		disruption.Rule{Name: "/etc/app", Actions: []disruption.Action{{Type: disruption.ActionRestart, Service: "app.service"}}})
	want.Units = append(want.Units,
		disruption.Rule{Name: "app.service", Actions: []disruption.Action{{Type: disruption.ActionDaemonReload}}})
	want.SSHKey = []disruption.Action{{Type: disruption.ActionReboot}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

func TestAPolicySurvivesItsStatus(t *testing.T) {
	got, err := disruption.FromStatus(disruption.Default().Status())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(disruption.Default(), got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryBadRuleIsNamed(t *testing.T) {
	_, err := disruption.FromSpec(operatorv1.NodeDisruptionPolicyConfig{
		Files: []operatorv1.NodeDisruptionPolicySpecFile{
			fileSpec("etc/relative", specAction("None", "")),
			fileSpec("/a", specAction("Reboot", ""), specAction("Drain", "")),
			fileSpec("/b", specAction("Reload", "")),
			fileSpec("/c", specAction("Special", "")),
			fileSpec("/d", specAction("Explode", "")),
			fileSpec("/e"),
			fileSpec("/f", specAction("None", "")),
			fileSpec("/f", specAction("Reboot", "")),
		},
		Units: []operatorv1.NodeDisruptionPolicySpecUnit{{
			Name:    "crio",
			Actions: []operatorv1.NodeDisruptionPolicySpecAction{specAction("None", "")},
		}},
	})
	if err == nil {
		t.Fatal("all of it was taken")
	}
	for _, want := range []string{
		"rule etc/relative: its path is not absolute", "rule /a: action Reboot cannot be combined with others",
		"rule /b: action Reload names no service",
		"rule /c: action Special is reserved", `rule /d: action "Explode" is unknown`, "rule /e: it has no actions",
		"rule /f: it is repeated", "rule crio: it is not the name of a unit",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
}
