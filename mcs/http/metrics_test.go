package http

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// exposed is what Prometheus reads, without its comments.
func exposed(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

func TestCountsNameOnlyPoolsThatThereAre(t *testing.T) {
	o, known, _ := closed(t)
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	gone := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "gone"})
	h, counts := Routes(o)
	whole := len(text(t, ask(h, "GET", "/config/worker", "Authorization", bearer(good))))
	ask(h, "HEAD", "/config/worker", "Authorization", bearer(good))
	ask(h, "GET", "/config/worker", "Authorization", bearer(good), "Accept", accept+"1.0.0")
	ask(h, "GET", "/config/worker")
	ask(h, "GET", "/config/made-up-1")
	ask(h, "GET", "/config/made-up-2", "Authorization", bearer(good))
	ask(h, "GET", "/config/gone", "Authorization", bearer(gone))
	r := httptest.NewRequest("GET", "/config/worker", nil)
	r.Header.Set("Authorization", bearer(good))
	h.ServeHTTP(&broken{httptest.NewRecorder(), 7}, r)
	want := []string{
		`bunsen_mcs_broken_transfers_total 1`,
		`bunsen_mcs_refusals_total{reason="Missing"} 2`,
		`bunsen_mcs_refusals_total{reason="OtherPool"} 1`,
		`bunsen_mcs_refusals_total{reason="UnknownPool"} 1`,
		`bunsen_mcs_refusals_total{reason="Unsupported"} 1`,
		`bunsen_mcs_requests_total{code="200",pool="worker"} 3`,
		`bunsen_mcs_requests_total{code="400",pool="worker"} 1`,
		`bunsen_mcs_requests_total{code="401",pool=""} 2`,
		`bunsen_mcs_requests_total{code="403",pool=""} 1`,
		`bunsen_mcs_requests_total{code="404",pool=""} 1`,
	}
	var got []string
	for _, line := range exposed(t, counts) {
		if !strings.HasPrefix(line, "bunsen_mcs_served_bytes_total") {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters -want +got:\n%s", diff)
	}
	if counts.Served() != 1 || counts.Refused() != 5 || whole == 0 {
		t.Errorf("counted %d served, %d refused", counts.Served(), counts.Refused())
	}
}

// fragile panics where it is asked for a config.
type fragile struct{}

func (fragile) NodeConfig(string, string) (*mcs.ServedConfig, error) {
	panic("out of luck")
}
func (fragile) Started() bool { return true }
func (fragile) Ready() bool   { return true }
func (fragile) Synced() bool  { return true }

func TestAPanicIsAnAnswerAndInTheRecords(t *testing.T) {
	var written strings.Builder
	o := open(fragile{})
	o.Audit = &written
	h, counts := Routes(o)
	r := ask(h, "GET", "/config/worker")
	if body := text(t, r); r.StatusCode != 500 || body != "the config cannot be served\n" {
		t.Errorf("answered %d %q", r.StatusCode, body)
	}
	if !strings.Contains(written.String(), "out of luck") || counts.Refused() != 1 {
		t.Errorf("the audit log has %q, and %d were refused", written.String(), counts.Refused())
	}
}
