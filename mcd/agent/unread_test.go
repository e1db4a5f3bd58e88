package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// noConfigs is a cluster that answers, but gives no config while why is set.
type noConfigs struct {
	*cluster
	why error
}

func (c *noConfigs) Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error) {
	if c.why != nil {
		return mcfgv1.MachineConfig{}, c.why
	}
	return c.cluster.Config(ctx, name)
}

// TestANodeThatCannotReadItsConfigSaysSoAndContinuesByItself: it waits first, fails later, and is Done when the config
// is there.
func TestANodeThatCannotReadItsConfigSaysSoAndContinuesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.c.desire("rendered-a")
		r.must(r.settle())
		c := &noConfigs{cluster: r.c}
		r.a = agent.New(agent.Config{
			Node: "worker-0", Cluster: c, Host: r.m.Host(), Events: &r.events,
			Metrics: &r.counts, Status: &r.published, Log: r.logger(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.a.Run(ctx, r.c.changed) }()
		synctest.Wait()

		c.why = fmt.Errorf("%w: https://server:22623 answers 503", report.ErrUnreachable)
		r.c.told = nil
		r.c.desire("rendered-b")
		r.c.signal()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(r.c.told) > 0 {
			t.Errorf("a server that is restarted is no news, but it reports %q", r.c.told)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.c.says(t, "Working", "rendered-a", "waiting for the config rendered-b: ", "server:22623 answers 503")
		if r.c.failure(t) != (v1alpha1.Failure{}) {
			t.Errorf("it reports the failure %+v", r.c.failure(t))
		}
		if told := slices.DeleteFunc(slices.Clone(r.c.told), func(s string) bool {
			return !strings.HasPrefix(s, "state=")
		}); len(told) != 1 {
			t.Errorf("it reports %q", told)
		}
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		r.c.says(t, "Degraded", "rendered-a", "waiting for the config rendered-b")
		if f := r.c.failure(t); f.Cause != v1alpha1.FailureNoAccess || f.Config != "rendered-b" {
			t.Errorf("it reports the failure %+v", f)
		}
		c.why = nil
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.c.says(t, "Done", "rendered-b")
		if log := r.log.String(); strings.Contains(log, "API server does not answer;") ||
			!strings.Contains(log, "a part of the cluster gives no usable answer") {
			t.Errorf("the log says\n%s", log)
		}
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, agent.ErrRebooting) {
			t.Error(err)
		}
	})
}
