package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Clock returns a function that logs how long a phase took: the time since its last call.
func Clock(t testing.TB) func(phase string) {
	last := time.Now()
	return func(phase string) {
		t.Helper()
		t.Logf("%6.1f s  %s", time.Since(last).Seconds(), phase)
		last = time.Now()
	}
}

// measured are the programs whose memory LogMemory logs.
var measured = []string{
	"machine-config-controller", "machine-config-daemon", "machine-config-server", "kubelet",
	"containerd", "kube-apiserver", "etcd",
}

// LogMemory logs the resident memory of Bunsen's pods and of the programs that every node runs, on each node.
func LogMemory(c *Cluster) {
	c.t.Helper()
	for _, h := range c.Nodes {
		used := map[string]int{}
		for line := range strings.Lines(h.Do("ps", "-eo", "rss=,args=")) {
			words := strings.Fields(line)
			if len(words) < 2 {
				continue
			}
			if kib, err := strconv.Atoi(words[0]); err == nil && slices.Contains(measured, filepath.Base(words[1])) {
				used[filepath.Base(words[1])] += kib
			}
		}
		var texts []string
		for _, program := range measured {
			if kib, runs := used[program]; runs {
				texts = append(texts, fmt.Sprintf("%s %d MiB", program, kib>>10))
			}
		}
		c.t.Logf("memory on %s: %s", h.Name, strings.Join(texts, ", "))
	}
}
