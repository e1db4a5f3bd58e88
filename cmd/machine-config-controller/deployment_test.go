package main

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// deploymentOf reads a Deployment of config/controller.
func deploymentOf(t *testing.T, name string) appsv1.Deployment {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", "config", "controller"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), root)
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	for _, r := range all.Resources() {
		if r.GetKind() != "Deployment" || r.GetName() != name {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(r.MustYaml()), &deployment); err != nil {
			t.Fatal(err)
		}
	}
	if len(deployment.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("config/controller has no Deployment %s", name)
	}
	return deployment
}

// The notifier starts this program's subcommand, under another account than the controller.
func TestTheNotifiersFlagsAreOurs(t *testing.T) {
	deployment := deploymentOf(t, "machine-config-notifier")
	container := deployment.Spec.Template.Spec.Containers[0]
	sub, args, err := command().Find(container.Args)
	if err != nil || sub.Name() != "notify" {
		t.Fatalf("%q: %v", container.Args, err)
	}
	if err := sub.ParseFlags(args); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if account := deployment.Spec.Template.Spec.ServiceAccountName; account == deploymentOf(t,
		"machine-config-controller").Spec.Template.Spec.ServiceAccountName || account == "" {
		t.Errorf("the notifier runs as %q, like the controller", account)
	}
	if got, want := sub.Flag("health").Value.String(),
		fmt.Sprintf(":%d", container.Ports[0].ContainerPort); got != want {
		t.Errorf("it serves --health at %s, the probes ask %s", got, want)
	}
}

// The Deployment in config/controller starts this very program.
func TestTheDeploymentsFlagsAreOurs(t *testing.T) {
	deployment := deploymentOf(t, "machine-config-controller")
	container := deployment.Spec.Template.Spec.Containers[0]
	program := command()
	if err := program.ParseFlags(container.Args); err != nil {
		t.Fatalf("%q: %v", container.Args, err)
	}
	flag := func(name string) string { return program.Flag(name).Value.String() }
	if flag("leader-elect") != "true" {
		t.Errorf("%d replicas act without a leader", *deployment.Spec.Replicas)
	}
	if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.MountPath == path.Dir(flag("store"))
	}) {
		t.Errorf("--store is %s, which is no directory below a volume: a volume belongs to root, and the root of the "+
			"container is read-only", flag("store"))
	}
	// A fetch writes its pack to the directory for temporary files, and the image has none.
	if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool {
		return e.Name == "TMPDIR" && slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == e.Value
		})
	}) {
		t.Error("TMPDIR is not a volume of the container")
	}
	for _, name := range []string{"health", "metrics"} {
		if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == name && flag(name) == fmt.Sprintf(":%d", p.ContainerPort)
		}) {
			t.Errorf("the program serves --%s at %s, and the container has the ports %v", name, flag(name),
				container.Ports)
		}
	}
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		if probe.HTTPGet.Port.StrVal != "health" {
			t.Errorf("a probe asks the port %s", probe.HTTPGet.Port.String())
		}
	}
	// replica reads these; NODE_NAME is the default of --node.
	for _, name := range []string{"NODE_NAME", "POD_NAME", "POD_NAMESPACE", "POD_UID"} {
		if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool {
			return e.Name == name && e.ValueFrom != nil
		}) {
			t.Errorf("the container does not get $%s", name)
		}
	}
}
