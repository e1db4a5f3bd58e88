package metrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func noon() time.Time { return time.Unix(1_800_000_000, 0) }

// life is a node that booted, drifted, failed to update and could not reboot.
func life() *Set {
	s := New(noon)
	s.Boot("fedora", "43")
	s.State("Working", "")
	s.State("Degraded", "unexpected \"content\" of C:\\x\nin /etc/motd")
	s.Update("rendered-worker-1", nil)
	s.Update("rendered-worker-2", errors.New("job for crio.service ended as failed"))
	s.Drift(noon().Add(-time.Minute))
	s.Reboot(nil)
	s.Reboot(errors.New("inhibited"))
	s.Pivot(errors.New("no such image"))
	s.Pivot(nil)
	return s
}

const lifeText = `# HELP mcd_config_drift Since when the disk is not as the config says, in seconds since 1970; 0 when it is.
# TYPE mcd_config_drift gauge
mcd_config_drift 1799999940
# HELP mcd_host_os_and_version 1, with what runs on this machine.
# TYPE mcd_host_os_and_version gauge
mcd_host_os_and_version{os="fedora",version="43"} 1
# HELP mcd_pivot_errors_total Parts of the OS that could not be staged.
# TYPE mcd_pivot_errors_total counter
mcd_pivot_errors_total 1
# HELP mcd_reboots_failed_total Reboot requests that the machine rejected.
# TYPE mcd_reboots_failed_total counter
mcd_reboots_failed_total 1
# HELP mcd_state Time of the last report of the Node's state, in seconds since 1970.
# TYPE mcd_state gauge
mcd_state{state="Degraded",reason="unexpected \"content\" of C:\\x in /etc/motd"} 1800000000
# HELP mcd_update_state When the newest update ended, in seconds since 1970; err is empty when it ended well.
# TYPE mcd_update_state gauge
mcd_update_state{config="rendered-worker-2",err="job for crio.service ended as failed"} 1800000000
`

func TestALifeInMetrics(t *testing.T) {
	if diff := cmp.Diff(lifeText, life().String()); diff != "" {
		t.Error(diff)
	}
}

func TestPrometheusReadsWhatIsServed(t *testing.T) {
	for name, s := range map[string]*Set{
		"at the start": New(noon), "after a life": life(),
		"a reason that is no text": func() *Set {
			s := New(noon)
			s.State("Degraded", "\xff\x00"+strings.Repeat("ü", 300))
			return s
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(strings.NewReader(s.String()))
			if err != nil {
				t.Fatal(err)
			}
			if families["mcd_config_drift"] == nil {
				t.Error("there is no mcd_config_drift")
			}
			for name, f := range families {
				if len(f.GetMetric()) != 1 {
					t.Errorf("%s has %d series", name, len(f.GetMetric()))
				}
			}
		})
	}
}

func TestDriftThatIsOverIsNoTime(t *testing.T) {
	s := life()
	s.Drift(time.Time{})
	if !strings.Contains(s.String(), "mcd_config_drift 0\n") {
		t.Error(s)
	}
}

func TestMetricsAreServedOnLoopbackOnly(t *testing.T) {
	for _, address := range []string{":8797", "0.0.0.0:0", "[::]:0", "192.0.2.1:8797"} {
		if l, err := Listen(address); !errors.Is(err, ErrNotLoopback) {
			t.Errorf("%s: %v %v", address, l, err)
		}
	}
	if _, err := Listen("127.0.0.1"); err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("an address without a port: %v", err)
	}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- life().Serve(ctx, l, func() error { return errors.New("cut off") }) }()
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/metrics", 200},
		{"HEAD", "/metrics", 200},
		{"POST", "/metrics", 405},
		{"GET", "/debug/pprof", 404},
		{"GET", "/", 404},
		{"GET", "/healthz", 200},
		{"GET", "/readyz", 503},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+l.Addr().String()+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close() //nolint:errcheck,gosec // all was read
		if err != nil || answer.StatusCode != c.code || c.method == "GET" && c.path == "/metrics" &&
			string(body) != lifeText || c.code == 503 && string(body) != "cut off\n" {
			t.Errorf("%s %s: %d %s %v", c.method, c.path, answer.StatusCode, body, err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
