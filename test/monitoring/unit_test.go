package monitoring

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v2"
)

// unitTests is a file as `promtool test rules` reads it, as far as alerts go.
type unitTests struct {
	RuleFiles []string       `yaml:"rule_files"`
	Every     model.Duration `yaml:"evaluation_interval"`
	Tests     []unitTest     `yaml:"tests"`
}

// unitTest is one story: series, and the alerts that they lead to.
type unitTest struct {
	Name   string         `yaml:"name"`
	Every  model.Duration `yaml:"interval"`
	Series []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []alertTest `yaml:"alert_rule_test"`
}

// alertTest says which alerts of a name fire at a time.
type alertTest struct {
	At   model.Duration `yaml:"eval_time"`
	Name string         `yaml:"alertname"`
	Want []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

func TestRulesFireWhenTheyShould(t *testing.T) {
	for file, tests := range readUnitTests(t) {
		for _, test := range tests.Tests {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".test.yaml")+"/"+test.Name, func(t *testing.T) {
				test.run(t, tests.RuleFiles)
			})
		}
	}
}

// TestEveryRuleIsTested: each alert has a story in which it fires, and one in which it does not.
func TestEveryRuleIsTested(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, tests := range readUnitTests(t) {
		for _, test := range tests.Tests {
			for _, a := range test.Alerts {
				if len(a.Want) > 0 {
					fires[a.Name] = true
				} else {
					silent[a.Name] = true
				}
			}
		}
	}
	for _, rule := range readRules(t) {
		if !fires[rule.Alert] || !silent[rule.Alert] {
			t.Errorf("%s: tested to fire: %v, tested not to: %v", rule.Alert, fires[rule.Alert], silent[rule.Alert])
		}
	}
}

func readUnitTests(t *testing.T) map[string]unitTests {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.test.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tests: %v", err)
	}
	out := map[string]unitTests{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tests unitTests
		if err := yaml.UnmarshalStrict(content, &tests); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for i := range tests.RuleFiles {
			tests.RuleFiles[i] = filepath.Join(filepath.Dir(file), tests.RuleFiles[i])
		}
		for i := range tests.Tests {
			if tests.Tests[i].Every == 0 {
				tests.Tests[i].Every = tests.Every
			}
		}
		out[file] = tests
	}
	return out
}

// run evaluates the rules at each interval, and compares at the times that are asked about.
func (u unitTest) run(t *testing.T, ruleFiles []string) {
	t.Helper()
	read := parser.NewParser(parser.Options{})
	every := time.Duration(u.Every)
	if every <= 0 {
		t.Fatal("the test has no interval")
	}
	var load strings.Builder
	fmt.Fprintf(&load, "load %s\n", u.Every)
	for _, s := range u.Series {
		fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
	}
	suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close() //nolint:errcheck // it lies in a temporary folder
	suite.SubqueryInterval = every
	m := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), Appendable: suite.Storage(),
		Context: t.Context(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger: promslog.NewNopLogger(), Parser: read,
		ExternalURL: &url.URL{},
	})
	groups, errs := m.LoadGroups(every, labels.EmptyLabels(), "", nil, false, ruleFiles...)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, g := range groups {
		for _, r := range g.Rules() {
			if rule, ok := r.(*rules.AlertingRule); ok {
				rule.SetRestored(true) // as a server does once it knows the alerts of before its start
			}
		}
	}
	for at := time.Duration(0); at <= u.last(); at += every {
		now := time.Unix(0, 0).UTC().Add(at)
		suite.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(suite.Context(), now)
			}
		})
		for _, a := range u.Alerts {
			if time.Duration(a.At) >= at && time.Duration(a.At) < at+every {
				a.compare(t, groups)
			}
		}
	}
}

// last is the last time that is asked about.
func (u unitTest) last() time.Duration {
	var last model.Duration
	for _, a := range u.Alerts {
		last = max(last, a.At)
	}
	return time.Duration(last)
}

// compare holds the alerts that fire against those that should.
func (a alertTest) compare(t *testing.T, groups map[string]*rules.Group) {
	t.Helper()
	known := false
	var got, want []string
	for _, g := range groups {
		for _, r := range g.Rules() {
			if err := r.LastError(); err != nil {
				t.Fatalf("%s at %s: %v", r.Name(), a.At, err)
			}
			rule, ok := r.(*rules.AlertingRule)
			if !ok || rule.Name() != a.Name {
				continue
			}
			known = true
			for _, active := range rule.ActiveAlerts() {
				if active.State == rules.StateFiring {
					got = append(got, words(active.Labels.Map(), active.Annotations.Map()))
				}
			}
		}
	}
	if !known {
		t.Errorf("there is no alert %s", a.Name)
	}
	for _, w := range a.Want {
		expected := map[string]string{"alertname": a.Name}
		for k, v := range w.Labels {
			expected[k] = v
		}
		want = append(want, words(expected, w.Annotations))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s at %s (-want +got):\n%s", a.Name, a.At, diff)
	}
}

// words are an alert as text.
func words(labelled, annotations map[string]string) string {
	return labels.FromMap(labelled).String() + "\n" + strings.ReplaceAll(labels.FromMap(annotations).String(), ", ",
		",\n")
}
