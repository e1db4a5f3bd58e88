package render_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/reconcile/render"
)

// shape is a kind of corpus: four or five files of a size and a unit in each MachineConfig.
type shape struct {
	name      string
	low, high int
	counts    []int
}

// A thousand MachineConfigs of the small shape, and about a hundred of the large, are as much as a cluster stores in
// one object.
var shapes = []shape{{"small", 100, 200, []int{10, 100, 1000}}, {"large", 1 << 10, 4 << 10, []int{10, 90}}}

// one is MachineConfig number i.
func (s shape) one(i, generation int) *mcfgv1.MachineConfig {
	r := rand.New(rand.NewPCG(uint64(i), uint64(generation)))
	var b strings.Builder
	b.WriteString(`"storage":{"files":[`)
	for f := range 4 + i%2 {
		if f > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"path":"/etc/conf.d/%d/%d","mode":420,"contents":{"source":"data:,`, i, f)
		for left := s.low + r.IntN(s.high-s.low); left > 0; left -= 22 {
			fmt.Fprintf(&b, "a%%20line%%20of%%20%04d%%0A", r.IntN(10000))
		}
		b.WriteString(`"}}`)
	}
	fmt.Fprintf(&b,
		`]},"systemd":{"units":[{"name":"u%d.service","enabled":true,"contents":"[Service]\nExecStart=/bin/true\n"}]}`,
		i)
	return cacheMc(fmt.Sprintf("%05d", i), "worker", b.String())
}

func (s shape) corpus(n int) (mcs []*mcfgv1.MachineConfig) {
	for i := range n {
		mcs = append(mcs, s.one(i, 0))
	}
	return mcs
}

func BenchmarkMerge(b *testing.B) {
	for _, s := range shapes {
		for _, n := range s.counts {
			mcs := s.corpus(n)
			size := 0
			for _, m := range mcs {
				size += len(m.Spec.Config.Raw)
			}
			run := func(what string, r func() *render.Renderer, before func(turn int)) {
				b.Run(fmt.Sprintf("%s/%s/%d", s.name, what, n), func(b *testing.B) {
					b.SetBytes(int64(size))
					warm := r()
					begun := cpu(b)
					for turn := 0; b.Loop(); turn++ {
						before(turn)
						if warm == nil {
							mustMerge(b, &render.Renderer{}, mcs)
						} else {
							mustMerge(b, warm, mcs)
						}
					}
					b.ReportMetric(float64((cpu(b)-begun).Nanoseconds())/float64(b.N), "cpu-ns/op")
				})
			}
			cold := func() *render.Renderer { return nil }
			warm := func() *render.Renderer {
				r := &render.Renderer{}
				mustMerge(b, r, mcs)
				return r
			}
			run("cold", cold, func(int) {})
			run("one-changed", warm, func(turn int) { mcs[n/2] = s.one(n/2, turn+1) })
			run("nothing-changed", warm, func(int) {})
			shuffled := rand.New(rand.NewPCG(1, 1)).Perm(n)
			run("nothing-changed-other-order", warm, func(int) {
				mcs[shuffled[0]], mcs[shuffled[n/2]] = mcs[shuffled[n/2]], mcs[shuffled[0]]
			})
		}
	}
}

// cpu is what the process has used so far, the garbage collector included: unlike the clock, it hardly depends on what
// else the machine does.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func mustMerge(tb testing.TB, r *render.Renderer, mcs []*mcfgv1.MachineConfig) {
	tb.Helper()
	if _, err := r.Merge("worker", mcs, render.Defaults{}); err != nil {
		tb.Fatal(err)
	}
}
