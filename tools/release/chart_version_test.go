package main

import "testing"

func TestTheVersionOfTheChart(t *testing.T) {
	for version, want := range map[string]string{
		"0.1.0": "0.1.0", "v0.1.0": "0.1.0", "v1.2.3-rc.1": "1.2.3-rc.1", "v1.2.3-4-gabcdef0": "1.2.3-4-gabcdef0",
		"abcdef0": "0.0.0-gabcdef0", "abcdef0-dirty": "0.0.0-gabcdef0-dirty", "1.2": "0.0.0-g1-2", "dev": "0.0.0-gdev",
	} {
		if got := chartVersion(version); got != want {
			t.Errorf("the chart of version %s has the version %s, want %s", version, got, want)
		}
	}
}
