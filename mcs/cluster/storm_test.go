package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

const stormMachines = 1000

// storm boots many machines at once with one token that has a use for each: whoever is told to ask again asks again,
// and in the end everybody was served, so no use was lost on a machine that got nothing.
func storm(t *testing.T, p *plane) {
	p.token(t, "ffffffffff", stormMachines)
	c, log, _ := run(t, p.server, Options{})
	log.await(t, "ready")
	await(t, "the token", func() bool { return c.Token("ffffffffff") != nil })
	var again atomic.Int32
	begin := time.Now()
	var machines sync.WaitGroup
	for i := range stormMachines {
		machines.Go(func() {
			for n := 1; ; n++ {
				ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
				_, err := c.CreateBootstrapToken(ctx, mcs.JoiningMachine{
					Pool: "worker", Token: "ffffffffff",
					Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250),
				})
				if err == nil {
					err = c.Use(ctx, "ffffffffff", v1alpha1.TokenUse{Time: metav1.Now(), Address: "192.0.2.1"})
				}
				cancel()
				if err == nil {
					return
				}
				if n > 10 || reasonIs(err, join.UsedUp) {
					t.Error(err)
					return
				}
				again.Add(1)
			}
		})
	}
	machines.Wait()
	known := &v1alpha1.ProvisioningToken{}
	if err := p.admin.Get(t.Context(), client.ObjectKey{Name: "ffffffffff"}, known); err != nil {
		t.Fatal(err)
	}
	if known.Status.Used != stormMachines {
		t.Errorf("%d uses are counted", known.Status.Used)
	}
	t.Logf("%d machines in %s, %d asked again", stormMachines, time.Since(begin), again.Load())
}
