package agent_test

import (
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// failure is what the Node says of why it failed, in structured form.
func (c *cluster) failure(t *testing.T) v1alpha1.Failure {
	t.Helper()
	f, err := v1alpha1.ParseFailure(c.annotations[v1alpha1.FailureAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestTheCauseOfAFailureIsReported in structured form, with the request to retry that it answers.
func TestTheCauseOfAFailureIsReported(t *testing.T) {
	asked := time.Date(2036, 1, 2, 12, 0, 0, 0, time.UTC)
	for sentence, tc := range map[string]struct {
		before  func(*rig)
		config  string
		cause   v1alpha1.FailureCause
		phase   report.Phase
		problem string
	}{
		"a config that is not on the cluster":    {nil, "rendered-none", v1alpha1.FailureNoConfig, report.Blocked, ""},
		"a config that no running node can take": {nil, "rendered-d", v1alpha1.FailureRefused, report.Refused, "fips: "},
		"a service that does not start":          {func(r *rig) { r.m.Broken["crio.service"] = true }, "rendered-b", v1alpha1.FailureApply, report.RolledBack, "reload crio.service: "},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := newRig(t)
			r.c.add(t, "rendered-d", file("/etc/d", ""), func(s *mcfgv1.MachineConfigSpec) { s.FIPS = true })
			r.c.desire("rendered-a")
			r.must(r.settle())
			if tc.before != nil {
				tc.before(r)
			}
			r.c.desire(tc.config)
			_ = r.settle()
			f := r.c.failure(t)
			if r.a.Phase() != tc.phase || f.Phase != string(tc.phase) {
				t.Errorf("the phase is %s, and the failure has %q, want %s", r.a.Phase(), f.Phase, tc.phase)
			}
			if f.Cause != tc.cause || f.Config != tc.config || f.Since.IsZero() || f.Retry != nil {
				t.Fatalf("it reports %+v", f)
			}
			if !strings.HasPrefix(f.Problem, tc.problem) || (f.Problem == "") != (tc.problem == "") {
				t.Errorf("its problem is %q, want one that begins with %q", f.Problem, tc.problem)
			}
			reports := len(r.c.told)
			_ = r.settle()
			if now := r.c.failure(t); !now.Since.Equal(&f.Since) || now.Retry != nil {
				t.Errorf("a failure that goes on is reported as %+v, was %+v, after %d reports", now, f, reports)
			}
			r.c.annotations[v1alpha1.RetryAnnotation] = asked.Format(time.RFC3339)
			_ = r.settle()
			if now := r.c.failure(t); now.Cause != tc.cause || now.Retry == nil || !now.Retry.Time.Equal(asked) {
				t.Errorf("a retry that fails again is reported as %+v", now)
			}
		})
	}
}
