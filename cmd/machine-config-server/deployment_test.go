package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// The Deployment in config/server starts this very program, as its comments say.
func TestTheDeploymentsFlagsAreOurs(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", "config", "server"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), root)
	if err != nil {
		t.Fatal(err)
	}
	var settings corev1.ConfigMap
	var deployment appsv1.Deployment
	for _, r := range all.Resources() {
		into := map[string]any{"ConfigMap": &settings, "Deployment": &deployment}[r.GetKind()]
		if into == nil {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(r.MustYaml()), into); err != nil {
			t.Fatal(err)
		}
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	vars := map[string]string{}
	for _, e := range container.Env {
		if e.ValueFrom == nil {
			vars[e.Name] = e.Value
			continue
		}
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			if ref.Name != settings.Name {
				t.Errorf("$%s is of ConfigMap %s, and there is %s", e.Name, ref.Name, settings.Name)
			}
			vars[e.Name] = settings.Data[ref.Key]
		}
	}
	vars["HOST_IP"] = "192.0.2.10"
	for _, joins := range []string{"", "https://api-int.example.com:6443"} {
		vars["JOIN_SERVER"] = joins
		var args []string
		for _, arg := range container.Args {
			args = append(args, os.Expand(strings.NewReplacer("$(", "${", ")", "}").Replace(arg),
				func(name string) string { return vars[name] }))
		}
		var f flags
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, g := range f.groups() {
			set.AddFlagSet(g.flags)
		}
		if err := set.Parse(args); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		if err := f.check(set.Changed); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		if f.extra.server != joins || f.tls.secret != defaultSecret ||
			!slices.Equal(f.tls.hostnames, []string{"192.0.2.10"}) || f.from.cache == "" {
			t.Errorf("%q gives %+v", args, f)
		}
		if grace := f.tls.grace.Seconds(); grace >= float64(
			*deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) {
			t.Errorf("it is killed before its answers may end: --grace is %g s", grace)
		}
	}
}
