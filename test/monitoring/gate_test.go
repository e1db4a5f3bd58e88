package monitoring

import (
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/gate"
)

// ask returns what a prometheus gate says about a query, with SERVER for the address of the server.
func ask(t *testing.T, url, query string) string {
	t.Helper()
	evaluator := &gate.Evaluator{Now: time.Now}
	answers := evaluator.Pool(t.Context(), gate.Question{
		Pool: "worker", Config: "rendered-worker-1", Now: time.Now(),
		Pace: schedule.Pace{
			Gates: []v1alpha1.HealthGate{{Name: "errors", Prometheus: &v1alpha1.PrometheusGate{
				URL:   url,
				Query: query,
			}}},
		},
	})
	if len(answers) != 1 {
		t.Fatalf("the gates are %v", answers)
	}
	return strings.ReplaceAll(strings.TrimSpace(string(answers[0].Verdict)+" "+answers[0].Why), url, "SERVER")
}

// TestAGateReadsPrometheus: a gate reads the answers of Prometheus' own API, to which every kind of sample was
// appended.
func TestAGateReadsPrometheus(t *testing.T) {
	t.Parallel()
	server := startPrometheus(t, options{})
	const docs = `(sum(rate(http_requests_total{code=~"5.."}[5m])) or vector(0)) < bool 1`
	for _, c := range []struct{ name, query, want string }{
		{"true", `up{job="api"} == bool 1`, "Open"},
		{"false", `up{job="db"} == bool 1`, `Waits {job="db"} is 0, says SERVER`},
		{"one of two is false", `up`, `Waits up{job="db"} is 0, says SERVER`},
		{"a sum", `(sum(errors) or vector(0)) < bool 1`, "Waits {} is 0, says SERVER"},
		{"the query of the docs without series", docs, "Open"},
		{"a comparison that drops its sample", `errors < 1`, "Waits SERVER answers nothing to the query, which counts as false"},
		{"no series", `nothing_has_this_name`, "Waits SERVER answers nothing to the query, which counts as false"},
		{"a series that ended", `ended`, "Waits SERVER answers nothing to the query, which counts as false"},
		{"not a number", `ratio`, "Waits ratio is NaN, says SERVER"},
		{"a division by zero", `up{job="db"} / (up{job="db"})`, `Waits {job="db"} is NaN, says SERVER`},
		{"infinity", `up{job="api"} / 0`, "Open"},
		{"a number", `scalar(up{job="api"})`, "Open"},
		{"a number of no series", `scalar(nothing_has_this_name)`, "Waits SERVER answers NaN"},
		{"a text", `"up"`, "Waits SERVER answers neither samples nor a number, so write a query for one moment, such as up == 1: "},
		{"a range", `up[5m]`, "Waits SERVER answers a matrix, which is neither true nor false: write a query for one moment, such as up == 1"},
		{"a histogram", `latency`, "Waits SERVER answers a histogram, which is neither true nor false: compare it, such as histogram_quantile(0.99, …) < 1"},
		{"a quantile of a histogram", `histogram_quantile(0.99, latency) < bool 100`, "Open"},
		{"as many samples as a gate reads", `many{n!="1000"}`, "Open"},
		{"one sample more, and it is false", `sort_desc(many)`, "Waits SERVER warns that its answer may be incomplete (results truncated due to limit): aggregate the samples in the query, such as min(up)"},
		{"the same, aggregated", `min(many)`, "Waits {} is 0, says SERVER"},
		{"a typo", `sum(up`, `Waits SERVER rejects the query (invalid parameter "query": 1:7: parse error: unclosed left parenthesis): correct it in the RolloutPolicy`},
		{"two sides that do not match", `up * on() up`, "Waits SERVER does not answer the query: execution: found duplicate series for the match group {} on the right hand-side of the operation: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ask(t, server.url, c.query); got != c.want && !(strings.HasSuffix(c.want, ": ") &&
				strings.HasPrefix(got, c.want)) {
				t.Errorf("the gate says %q, want %q", got, c.want)
			}
		})
	}
}

// TestAGateWaitsForPrometheus: a server that starts, that gives up, that never answers, or that a gate may not ask.
func TestAGateWaitsForPrometheus(t *testing.T) {
	t.Parallel()
	expect := func(t *testing.T, o options, want string) {
		t.Helper()
		t.Parallel()
		if got := ask(t, startPrometheus(t, o).url, "up"); !strings.HasPrefix(got, want) {
			t.Errorf("the gate says %q, want %q", got, want)
		}
	}
	t.Run("it replays its log", func(t *testing.T) {
		expect(t, options{starting: true}, "Waits SERVER does not answer the query: server_error: server error: 503")
	})
	t.Run("it gives up", func(t *testing.T) {
		expect(t, options{timeout: time.Nanosecond}, "Waits SERVER does not answer the query: timeout: query timed "+
			"out in ")
	})
	t.Run("it never answers", func(t *testing.T) {
		expect(t, options{stuck: true}, "Waits SERVER has not answered within 10s")
	})
	t.Run("it requires a password", func(t *testing.T) {
		expect(t, options{webConfig: passwordConfig}, "Waits SERVER requires credentials, and a RolloutPolicy must "+
			"not contain any")
	})
}

// TestAGateTrustsTheCAsOfItsSystem: the server has a certificate of a CA. The gate asks it only if the system trusts
// that CA.
func TestAGateTrustsTheCAsOfItsSystem(t *testing.T) {
	t.Parallel()
	trusted := startPrometheus(t, options{webConfig: trustedCA.serve(t)})
	if got := ask(t, trusted.url, `up{job="api"}`); got != "Open" {
		t.Errorf("the gate says %q", got)
	}
	other := startPrometheus(t, options{webConfig: newAuthority(t.TempDir()).serve(t)})
	if got := ask(t, other.url, `up{job="api"}`); !strings.HasPrefix(got, "Waits SERVER cannot be reached: tls: "+
		"failed to verify certificate: x509: ") {
		t.Errorf("the gate says %q", got)
	}
	plain := "http" + strings.TrimPrefix(trusted.url, "https")
	if got := ask(t, plain, `up{job="api"}`); !strings.HasPrefix(got, "Waits SERVER rejects the query") &&
		!strings.HasPrefix(got, "Waits SERVER does not answer") {
		t.Errorf("without TLS the gate says %q", got)
	}
}
