package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-jsonnet"
)

// TestTheMixinHasTheSameRulesAndDashboard evaluates the mixin as a stack does that adds its own parts to it.
func TestTheMixinHasTheSameRulesAndDashboard(t *testing.T) {
	vm := jsonnet.MakeVM()
	vm.Importer(&jsonnet.FileImporter{JPaths: []string{config}})
	text, err := vm.EvaluateAnonymousSnippet("stack.jsonnet",
		`{ prometheusAlerts+:: { groups: [] }, grafanaDashboards+:: { 'ours.json': {} } } + (import 'mixin.libsonnet') + `+
			`{ alerts: self.prometheusAlerts, dashboards: self.grafanaDashboards }`)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Alerts     struct{ Groups []any }
		Dashboards map[string]any
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range got.Alerts.Groups {
		group, _ := g.(map[string]any)
		rules, _ := group["rules"].([]any)
		for _, r := range rules {
			rule, _ := r.(map[string]any)
			name, _ := rule["alert"].(string)
			names = append(names, name)
		}
	}
	var want []string
	for _, rule := range readRules(t) {
		want = append(want, rule.Alert)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the alerts (-want +got):\n%s", diff)
	}
	plain, err := os.ReadFile(filepath.Join(config, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard any
	if err := json.Unmarshal(plain, &dashboard); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dashboard, got.Dashboards["bunsen.json"]); diff != "" || got.Dashboards["ours.json"] == nil {
		t.Errorf("%d dashboards (-want +got):\n%s", len(got.Dashboards), diff)
	}
}
