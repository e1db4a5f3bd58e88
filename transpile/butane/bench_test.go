package butane_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/transpile/butane"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// document writes one of n files of a few KiB each, with an origin for every leaf, as an overlay gives it.
func document(head string, n int) butane.Input {
	var b strings.Builder
	b.WriteString(head + "storage:\n  files:\n")
	for i := range n {
		fmt.Fprintf(&b, "    - path: /etc/app/conf.d/%04d.conf\n      mode: 0644\n      overwrite: true\n"+
			"      contents:\n        inline: |\n", i)
		for line := range 40 {
			fmt.Fprintf(&b, "          option_%03d_%03d = value-%x # a line of settings\n", i, line, i*7919+line*104729)
		}
	}
	b.WriteString("systemd:\n  units:\n    - name: app.service\n      enabled: true\n      contents: |\n" +
		"        [Service]\n        ExecStart=/usr/bin/app\n        [Install]\n        WantedBy=multi-user.target\n")
	source := []byte(b.String())
	return butane.Input{Source: source, Origin: origin.Map{At: butane.PlacesOf(string(source))}}
}

// cpu is what the process has used so far, the garbage collector's share included: other than the clock, it tells the
// same on a busy machine.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkTranslate(b *testing.B) {
	const openshift = "metadata: {name: a, labels: {machineconfiguration.openshift.io/role: worker}}\n"
	for _, v := range []struct{ name, head string }{
		{"fcos-1.6", "variant: fcos\nversion: 1.6.0\n"},
		{"fcos-1.7", "variant: fcos\nversion: 1.7.0\n"},
		{"fcos-1.0", "variant: fcos\nversion: 1.0.0\n"},
		{"flatcar-1.1", "variant: flatcar\nversion: 1.1.0\n"},
		{"r4e-1.1", "variant: r4e\nversion: 1.1.0\n"},
		{"fiot-1.0", "variant: fiot\nversion: 1.0.0\n"},
		{"openshift-4.8", "variant: openshift\nversion: 4.8.0\n" + openshift},
		{"openshift-4.19", "variant: openshift\nversion: 4.19.0\n" + openshift},
	} {
		for _, n := range []int{1, 5, 20, 200} {
			b.Run(fmt.Sprintf("%s/%d", v.name, n), func(b *testing.B) {
				in := document(v.head, n)
				b.ReportAllocs()
				before := cpu(b)
				for b.Loop() {
					if _, found := butane.Translate(in); len(found) > 0 {
						b.Fatal(found)
					}
				}
				b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
			})
		}
	}
}
