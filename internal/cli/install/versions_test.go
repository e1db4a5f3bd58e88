package install_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/install"
)

func TestVersionsThatWorkTogether(t *testing.T) {
	for name, tc := range map[string]struct{ cli, controller, daemon, want string }{
		"one version":               {"v1.4.0", "v1.4.0", "v1.4.0", ""},
		"no summary":                {"v1.4.0", "", "v1.2.0", ""},
		"an upgrade under way":      {"v1.4.0", "v1.4.0", "v1.3.9", "3 machine-config-daemon: version v1.3.9, and the controller has version v1.4.0"},
		"a daemon that is too old":  {"v1.4.0", "v1.4.0", "v1.2.0", "fatal: 3 machine-config-daemon: version v1.2.0, and the controller has version v1.4.0"},
		"another major version":     {"v2.0.0", "v2.0.0", "v1.0.0", "fatal: 3 machine-config-daemon: version v1.0.0, and the controller has version v2.0.0"},
		"a build between two tags":  {"v1.4.0", "v1.4.0", "v1.4.0-5-gabcdef0", "3 machine-config-daemon: version v1.4.0-5-gabcdef0, and the controller has version v1.4.0"},
		"no semantic version":       {"dev", "v1.4.0", "dev", "3 machine-config-daemon: version dev, and the controller has version v1.4.0"},
		"a bunsen that is adjacent": {"v1.5.0", "v1.4.0", "v1.4.0", ""},
		"a bunsen that is too new":  {"v1.6.0", "v1.4.0", "v1.4.0", "this bunsen has version v1.6.0, and the controller has version v1.4.0"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range install.CheckVersions(tc.cli, v1alpha1.ClusterStatus{
				Version: tc.controller,
				Versions: []v1alpha1.ComponentVersion{
					{Component: v1alpha1.ControllerComponent, Version: tc.controller, Count: 2},
					{Component: v1alpha1.DaemonComponent, Version: tc.daemon, Count: 3},
				},
			}) {
				prefix := ""
				if p.Fatal {
					prefix = "fatal: "
				}
				got = append(got, prefix+p.What)
			}
			if text := strings.Join(got, "; "); text != tc.want {
				t.Errorf("%q, want %q", text, tc.want)
			}
		})
	}
}

func TestNodesInAnUpdate(t *testing.T) {
	var nodes []metav1.PartialObjectMetadata
	for i, tc := range []struct{ state, current, desired string }{
		{v1alpha1.StateDone, "a", "a"},
		{v1alpha1.StateWorking, "a", "a"},
		{v1alpha1.StateDone, "a", "b"},
		{v1alpha1.StateDegraded, "a", "b"},
		{"", "", ""},
	} {
		nodes = append(nodes, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("n%d", i),
			Annotations: map[string]string{
				v1alpha1.StateAnnotation: tc.state, v1alpha1.CurrentConfigAnnotation: tc.current,
				v1alpha1.DesiredConfigAnnotation: tc.desired,
			},
		}})
	}
	if got := install.Updating(nodes); !slices.Equal(got, []string{"n1", "n2"}) {
		t.Errorf("nodes in an update: %q", got)
	}
}
