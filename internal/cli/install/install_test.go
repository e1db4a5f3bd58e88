package install_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/config"
	"github.com/bunsen-os/bunsen/internal/cli/install"
)

func images() map[string]string {
	return map[string]string{
		install.Controller:   "registry.example.com:5000/bunsen/machine-config-controller:v1",
		install.Server:       "registry.example.com:5000/bunsen/machine-config-server@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		install.Daemon:       "registry.example.com:5000/bunsen/machine-config-daemon:v1",
		install.ConsoleImage: "registry.example.com:5000/bunsen/bunsen:v1",
	}
}

// summary is one line for each object that differs by the options.
func summary(t *testing.T, all []*unstructured.Unstructured) []string {
	t.Helper()
	var lines []string
	for _, o := range all {
		line := o.GetKind() + " " + o.GetName()
		switch o.GetKind() {
		case "Deployment", "DaemonSet":
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			replicas, _, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
			if err != nil {
				t.Fatal(err)
			}
			line += " " + containers[0].(map[string]any)["image"].(string)
			if replicas == int64(1) {
				line += " one replica"
			}
			lines = append(lines, line)
		case "ConfigMap":
			data, _, err := unstructured.NestedStringMap(o.Object, "data")
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range slices.Sorted(maps.Keys(data)) {
				lines = append(lines, key+"="+data[key])
			}
		case "PodDisruptionBudget":
			lines = append(lines, line)
		case "ClusterRoleBinding":
			if strings.Contains(o.GetName(), "configs") {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func TestTheOptionsAreInTheObjects(t *testing.T) {
	const (
		controller = "Deployment machine-config-controller " +
			"registry.example.com:5000/bunsen/machine-config-controller:v1"
		server = "Deployment machine-config-server " +
			"registry.example.com:5000/bunsen/machine-config-server@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		daemon = "DaemonSet machine-config-daemon registry.example.com:5000/bunsen/machine-config-daemon:v1"
	)
	for name, tc := range map[string]struct {
		options install.Options
		want    []string
	}{
		"three control-plane nodes": {install.Options{ControlPlaneNodes: 3, Hostnames: []string{
			"api-int.example.com",
			"192.0.2.1",
		}, JoinServer: "https://api-int.example.com:6443"}, []string{
			daemon, controller, server, "PodDisruptionBudget machine-config-controller",
			"PodDisruptionBudget machine-config-server",
			"hostnames=api-int.example.com,192.0.2.1", "join-server=https://api-int.example.com:6443",
		}},
		"one control-plane node": {install.Options{ControlPlaneNodes: 1}, []string{daemon, controller + " one replica", server + " one replica", "hostnames=", "join-server="}},
		"with the console": {install.Options{ControlPlaneNodes: 1, Console: []string{
			"console.example.org",
			"localhost:8443",
		}}, []string{
			daemon, controller + " one replica", server + " one replica",
			"Deployment bunsen-console registry.example.com:5000/bunsen/bunsen:v1 one replica",
			"hostnames=", "hosts=console.example.org,localhost:8443", "join-server=",
		}},
		"without the server": {install.Options{Without: []string{install.Server}}, []string{
			"ClusterRoleBinding bunsen-nodes-read-configs", daemon, controller,
			"PodDisruptionBudget machine-config-controller",
		}},
		"without the daemon": {install.Options{Without: []string{install.Daemon}, ControlPlaneNodes: 2}, []string{
			controller, server, "PodDisruptionBudget machine-config-controller",
			"PodDisruptionBudget machine-config-server", "hostnames=", "join-server=",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.options.Images = images()
			if err := tc.options.Check(); err != nil {
				t.Fatal(err)
			}
			all, err := install.Manifest(config.Files, tc.options)
			if err != nil {
				t.Fatal(err)
			}
			got := summary(t, all)
			tc.want = append(tc.want, "Deployment machine-config-notifier "+
				"registry.example.com:5000/bunsen/machine-config-controller:v1 one replica")
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("the objects are\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
			}
			first, rest := install.Phases(all)
			if len(first)+len(rest) != len(all) || len(first) < 11 || first[0].GetKind() != "Namespace" {
				t.Errorf("%d namespaces and kinds and %d other objects of %d", len(first), len(rest), len(all))
			}
		})
	}
}

func TestMistakesInTheOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*install.Options)
		want   string
	}{
		"no image":                    {func(o *install.Options) { delete(o.Images, install.Daemon) }, "no image of machine-config-daemon"},
		"an image that is not set":    {func(o *install.Options) { o.Images[install.Server] = "image.invalid/machine-config-server:set-yours" }, "is a placeholder: push the images"},
		"an image without a tag":      {func(o *install.Options) { o.Images[install.Server] = "registry.example.com:5000/server" }, "neither a tag nor a digest"},
		"an image with a line break":  {func(o *install.Options) { o.Images[install.Server] = "a:b\nprivileged: true" }, "characters that no reference has"},
		"a part that is needed":       {func(o *install.Options) { o.Without = []string{install.Controller} }, "--without machine-config-controller"},
		"join by http":                {func(o *install.Options) { o.JoinServer = "http://x" }, "begins with https://"},
		"a host name that is a URL":   {func(o *install.Options) { o.Hostnames = []string{"https://x/"} }, "want a host name"},
		"no image of the console":     {func(o *install.Options) { o.Console = []string{"localhost"}; delete(o.Images, install.ConsoleImage) }, "no image of bunsen"},
		"a console at a URL":          {func(o *install.Options) { o.Console = []string{"https://localhost"} }, "want a host that browsers open"},
		"two host names in one value": {func(o *install.Options) { o.Hostnames = []string{"a,b"} }, "want a host name"},
	} {
		t.Run(name, func(t *testing.T) {
			o := install.Options{Images: images()}
			tc.change(&o)
			if err := o.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestWhatPreventsAnInstallation(t *testing.T) {
	good := install.Readiness{Major: "1", Minor: "34", Admin: true, Nodes: 5, ControlPlane: 3, ConsoleCertificate: true}
	for name, tc := range map[string]struct {
		change func(*install.Readiness)
		fatal  bool
		want   string
	}{
		"nothing":                        {func(*install.Readiness) {}, false, ""},
		"a version with a plus":          {func(r *install.Readiness) { r.Minor = "30+" }, false, ""},
		"a version that is not a number": {func(r *install.Readiness) { r.Minor = "x" }, false, ""},
		"an old version":                 {func(r *install.Readiness) { r.Minor = "29" }, true, "Kubernetes 1.29"},
		"no rights":                      {func(r *install.Readiness) { r.Admin = false }, true, "you may not create kinds"},
		"OpenShift":                      {func(r *install.Readiness) { r.MachineConfigOperator = true }, true, "leads its pools"},
		"no nodes":                       {func(r *install.Readiness) { r.Nodes, r.ControlPlane = 0, 0 }, false, "has no nodes yet"},
		"no certificate of the console":  {func(r *install.Readiness) { r.ConsoleCertificate = false }, false, "bunsen-console-tls does not exist"},
		"no control plane":               {func(r *install.Readiness) { r.ControlPlane = 0 }, false, "no place to run"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			tc.change(&r)
			problems := r.Check(install.Options{Console: []string{"localhost"}})
			if tc.want == "" {
				if len(problems) > 0 {
					t.Errorf("problems: %+v", problems)
				}
				return
			}
			if len(problems) != 1 || problems[0].Fatal != tc.fatal || !strings.Contains(problems[0].What, tc.want) ||
				problems[0].Fix == "" {
				t.Errorf("problems: %+v, want one with %q", problems, tc.want)
			}
			if fatal := len(install.Fatal(problems)) > 0; fatal != tc.fatal {
				t.Errorf("fatal: %t", fatal)
			}
		})
	}
}

func TestTheStateOfTheParts(t *testing.T) {
	two := int32(2)
	deployment := func(ready int32, generation int64) appsv1.Deployment {
		return appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: install.Controller, Generation: 2},
			Spec:       appsv1.DeploymentSpec{Replicas: &two},
			Status: appsv1.DeploymentStatus{
				ObservedGeneration: generation, Replicas: 2, UpdatedReplicas: 2,
				AvailableReplicas: ready,
			},
		}
	}
	surge := deployment(2, 2)
	surge.Status.Replicas, surge.Status.UpdatedReplicas = 3, 1
	daemon := func(wanted, updated, available int32) appsv1.DaemonSet {
		return appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: install.Daemon, Generation: 1},
			Status: appsv1.DaemonSetStatus{
				ObservedGeneration: 1, DesiredNumberScheduled: wanted,
				UpdatedNumberScheduled: updated, NumberAvailable: available,
			},
		}
	}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": install.Daemon}},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason:  "CrashLoopBackOff",
			Message: "back-off 10s",
		}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1,
			Message:  "one\nno kubeconfig\n",
		}},
	}}
	pending := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": install.Controller}},
	}
	pending.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Message: "0/1 nodes are available",
	}}
	for name, tc := range map[string]struct {
		observed install.Observed
		want     string
		settled  bool
	}{
		"nothing":              {install.Observed{}, "machine-config-controller is not installed, machine-config-server is not installed, machine-config-daemon is not installed", false},
		"ready":                {install.Observed{Deployments: []appsv1.Deployment{deployment(2, 2)}, DaemonSets: []appsv1.DaemonSet{daemon(3, 3, 3)}}, "machine-config-controller 2 of 2, machine-config-server is not installed, machine-config-daemon 3 of 3", true},
		"a console that waits": {install.Observed{Deployments: []appsv1.Deployment{deployment(2, 2), {ObjectMeta: metav1.ObjectMeta{Name: install.Console}}}, DaemonSets: []appsv1.DaemonSet{daemon(3, 3, 3)}}, "machine-config-controller 2 of 2, machine-config-server is not installed, machine-config-daemon 3 of 3, bunsen-console 0 of 1", false},
		"an old generation":    {install.Observed{Deployments: []appsv1.Deployment{deployment(2, 1)}, DaemonSets: []appsv1.DaemonSet{daemon(3, 3, 3)}}, "machine-config-controller 0 of 2, machine-config-server is not installed, machine-config-daemon 3 of 3", false},
		"an old pod is available, and the new one is not": {install.Observed{Deployments: []appsv1.Deployment{surge}}, "machine-config-controller 0 of 2, machine-config-server is not installed, machine-config-daemon is not installed", false},
		"an update under way":                             {install.Observed{Deployments: []appsv1.Deployment{deployment(2, 2)}, DaemonSets: []appsv1.DaemonSet{daemon(3, 1, 3)}, Pods: []corev1.Pod{pod, pod, pending}}, "machine-config-controller 2 of 2 (no node for a pod: 0/1 nodes are available), machine-config-server is not installed, machine-config-daemon 1 of 3 (CrashLoopBackOff: exit code 1: no kubeconfig)", false},
	} {
		t.Run(name, func(t *testing.T) {
			var words []string
			states := install.States(tc.observed)
			for _, s := range states {
				word := s.String()
				if len(s.Problems) > 0 {
					word += " (" + strings.Join(s.Problems, "; ") + ")"
				}
				words = append(words, word)
			}
			if got := strings.Join(words, ", "); got != tc.want {
				t.Errorf("the parts are\n%s\nwant\n%s", got, tc.want)
			}
			if got := install.Settled(states, []string{install.Server}); got != tc.settled {
				t.Errorf("settled: %t", got)
			}
		})
	}
}

func TestAnUninstallationStopsWhatActsFirst(t *testing.T) {
	all, err := install.Manifest(config.Files, install.Options{Images: images(), ControlPlaneNodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	kinds := func(everything bool) (order []string) {
		for _, o := range install.RemovalPhases(all, everything) {
			if len(order) == 0 || order[len(order)-1] != o.GetKind() {
				order = append(order, o.GetKind())
			}
		}
		return order
	}
	for _, everything := range []bool{false, true} {
		order := kinds(everything)
		acting := order[:3]
		slices.Sort(acting)
		if !slices.Equal(acting, []string{"DaemonSet", "Deployment", "PodDisruptionBudget"}) {
			t.Errorf("the first kinds are %q", acting)
		}
		if got := slices.Contains(order, "CustomResourceDefinition"); got != everything {
			t.Errorf("kinds are deleted: %t, asked for: %t", got, everything)
		}
	}
	if order := kinds(true); order[len(order)-1] != "Namespace" || order[len(order)-2] != "CustomResourceDefinition" {
		t.Errorf("the last kinds are %q: the kinds go before the namespaces", order[len(order)-2:])
	}
	known, err := install.Everything(config.Files)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(known, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Deployment" && o.GetName() == install.Console
	}) {
		t.Error("an uninstallation leaves the console")
	}
	if n := len(install.RemovalPhases(all, true)); n != len(all) {
		t.Errorf("%d of %d objects are deleted", n, len(all))
	}
}
