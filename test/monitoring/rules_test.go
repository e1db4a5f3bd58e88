package monitoring

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"

	"github.com/bunsen-os/bunsen/mcd/metrics"
)

var update = flag.Bool("update", false, "rewrite prometheusrule.yaml from rules.yaml")

// Where things lie.
const (
	config    = "../../config/monitoring"
	manual    = "../../docs/monitoring.md"
	reference = "../../docs/metrics.md"
	exported  = "../../reconcile/health/testdata/metrics.txt"
	runbook   = "https://github.com/bunsen-os/bunsen/blob/main/docs/monitoring.md#"
)

func readRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	groups, errs := rulefmt.ParseFile(filepath.Join(config, "rules.yaml"), false, model.UTF8Validation,
		parser.NewParser(parser.Options{}), promslog.NewNopLogger())
	if len(errs) > 0 {
		t.Fatal(errors.Join(errs...))
	}
	var out []rulefmt.Rule
	for _, g := range groups.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) == 0 {
		t.Fatal("there are no rules")
	}
	return out
}

func TestEveryAlertSaysWhatToDo(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range readRules(t) {
		a := rule.Annotations
		if rule.Alert == "" || a["summary"] == "" || rule.Labels["severity"] == "" {
			t.Errorf("%s has no name, summary or severity", rule.Alert)
		}
		if !strings.Contains(a["description"], "First command: ") {
			t.Errorf("the description of %s names no first command", rule.Alert)
		}
		if a["runbook_url"] != runbook+strings.ToLower(rule.Alert) {
			t.Errorf("the runbook of %s is %q", rule.Alert, a["runbook_url"])
		}
		if !strings.Contains(string(text), "\n### "+rule.Alert+"\n") {
			t.Errorf("%s has no heading ### %s", manual, rule.Alert)
		}
	}
}

// TestTheObjectHasTheSameRules: the object of the Prometheus operator is made from the plain file.
func TestTheObjectHasTheSameRules(t *testing.T) {
	plain, err := os.ReadFile(filepath.Join(config, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, groups, ok := strings.Cut(string(plain), "\ngroups:\n")
	if !ok {
		t.Fatal("rules.yaml does not begin with groups")
	}
	var b strings.Builder
	b.WriteString(head)
	for line := range strings.Lines(groups) {
		if line != "\n" {
			line = "  " + line
		}
		b.WriteString(line)
	}
	file := filepath.Join(config, "prometheusrule.yaml")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("go test . -update writes it from rules.yaml (-want +got):\n%s", diff)
	}
	var object struct {
		Spec rulefmt.RuleGroups `yaml:"spec"`
	}
	if err := yaml.Unmarshal(got, &object); err != nil || len(object.Spec.Groups) == 0 {
		t.Errorf("the object has %d groups: %v", len(object.Spec.Groups), err)
	}
}

const head = `# Written from rules.yaml by the tests of test/monitoring (-update).
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: bunsen
  namespace: bunsen-system
spec:
  groups:
`

// programs are the metrics that controller and daemon export, each with its labels. Those that Prometheus adds are
// there for all.
func programs(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile(exported)
	if err != nil {
		t.Fatal(err)
	}
	daemon := metrics.New(func() time.Time { return time.Unix(1800000000, 0) })
	daemon.State("Done", "")
	daemon.Update("rendered-worker-1", nil)
	daemon.Boot("fedora", "43")
	out := map[string]map[string]bool{}
	for _, source := range []string{string(text), daemon.String()} {
		parse := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parse.TextToMetricFamilies(bytes.NewReader([]byte(source)))
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range families {
			labels := map[string]bool{"instance": true, "job": true, "namespace": true, "pod": true}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = true
				}
			}
			if f.GetMetric()[0].GetHistogram() != nil {
				out[name+"_sum"], out[name+"_count"] = labels, labels
				out[name+"_bucket"] = map[string]bool{"le": true, "pool": true, "instance": true, "job": true}
				continue
			}
			out[name] = labels
		}
	}
	return out
}

// known fails where an expression asks for a metric, or by a label, that no program exports.
func known(t *testing.T, where, expr string, have map[string]map[string]bool) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		labels, ok := have[s.Name]
		if !ok {
			t.Errorf("%s asks for %s, which no program exports", where, s.Name)
			return nil
		}
		for _, m := range s.LabelMatchers {
			if m.Name != model.MetricNameLabel && !labels[m.Name] {
				t.Errorf("%s asks for %s by %s, a label that it does not have", where, s.Name, m.Name)
			}
		}
		return nil
	})
}

func TestRulesAskForWhatIsExported(t *testing.T) {
	have := programs(t)
	for _, rule := range readRules(t) {
		known(t, rule.Alert, rule.Expr, have)
	}
}

func TestWhatIsExportedIsDescribed(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	for name := range programs(t) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if strings.HasPrefix(name, "bunsen_commit") {
				name = strings.TrimSuffix(name, suffix)
			}
		}
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s does not mention `%s`", reference, name)
		}
	}
}
