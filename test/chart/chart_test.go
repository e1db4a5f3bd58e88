package chart

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// build writes the chart and install.yaml into a directory, as `make chart manifests` does.
func build(t *testing.T) (dir string) {
	t.Helper()
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	dir = t.TempDir()
	images := map[string]string{}
	for _, p := range []string{
		"bunsen", "machine-config-controller", "machine-config-server",
		"machine-config-daemon",
	} {
		images[p] = "registry.example.com/bunsen/" + p + digest
	}
	raw, err := json.Marshal(images)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "images.json"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"chart", "manifests"} {
		cmd := exec.CommandContext(t.Context(), "go", "run", "-C", "../../tools", "./release", command, "-o", dir,
			"-version", "v1.2.3")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	return dir
}

// object is an object as data.
type object = map[string]any

// nameOf returns the kind, namespace and name of an object.
func nameOf(o object) string {
	meta := o["metadata"].(object)
	namespace, _ := meta["namespace"].(string)
	return strings.Join([]string{o["kind"].(string), namespace, meta["name"].(string)}, " ")
}

// render returns the objects that Helm would install, by name, without the suffix of the server's ConfigMap.
func render(t *testing.T, dir string, values string) (map[string]object, error) {
	t.Helper()
	text, err := template(t, dir, values)
	return objects(t, hash.ReplaceAllString(text, "machine-config-server-HASH")), err
}

// template returns the text of the objects that Helm would install.
func template(t *testing.T, dir string, values string) (string, error) {
	t.Helper()
	chart, err := loader.Load(filepath.Join(dir, "chart"))
	if err != nil {
		t.Fatal(err)
	}
	set := object{}
	if err := yaml.Unmarshal([]byte(values), &set); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, set, common.ReleaseOptions{Name: "bunsen", Namespace: "default"},
		common.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return "", err
	}
	var texts []string
	for file, text := range files {
		if strings.HasSuffix(file, ".yaml") {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n---\n"), nil
}

// hash is the suffix of the server's ConfigMap.
var hash = regexp.MustCompile(`machine-config-server-[a-z0-9]{10}\b`)

// objects returns the objects of a text by name.
func objects(t *testing.T, text string) map[string]object {
	t.Helper()
	out := map[string]object{}
	for _, document := range strings.Split(text, "\n---\n") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if o != nil {
			out[nameOf(o)] = o
		}
	}
	return out
}

// TestTheChartIsTheManifest: with the default values, Helm installs what kubectl apply -f install.yaml installs.
func TestTheChartIsTheManifest(t *testing.T) {
	dir := build(t)
	got, err := render(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, o := range got {
		meta := o["metadata"].(object)
		if annotations, ok := meta["annotations"].(object); ok && annotations["helm.sh/resource-policy"] == "keep" {
			kept++
			if delete(annotations, "helm.sh/resource-policy"); len(annotations) == 0 {
				delete(meta, "annotations")
			}
		}
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := objects(t, hash.ReplaceAllString(string(manifest), "machine-config-server-HASH"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the chart differs from install.yaml (-install.yaml +chart):\n%s", diff)
	}
	kinds := 0
	for name := range want {
		if strings.HasPrefix(name, "CustomResourceDefinition ") || strings.HasPrefix(name, "Namespace ") {
			kinds++
		}
	}
	if kept != kinds || kinds < 12 {
		t.Errorf("helm uninstall keeps %d objects, want the %d kinds and namespaces", kept, kinds)
	}
}

// TestValues sets each value, and lists what differs from the default objects.
func TestValues(t *testing.T) {
	dir := build(t)
	standard, err := render(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	const (
		controller = "Deployment bunsen-system machine-config-controller"
		notifier   = "Deployment bunsen-system machine-config-notifier"
		server     = "Deployment bunsen-system machine-config-server"
		settings   = "ConfigMap bunsen-system machine-config-server-HASH"
		daemon     = "DaemonSet bunsen-system machine-config-daemon"
		console    = "Deployment bunsen-system bunsen-console"
		budgets    = "PodDisruptionBudget bunsen-system machine-config-"
	)
	pod := func(path string) string { return "spec.template.spec." + path }
	for values, want := range map[string][]string{
		"images: {controller: r/c:1}":                              {controller + " " + pod("containers.image: r/c:1"), notifier + " " + pod("containers.image: r/c:1")},
		"images: {server: r/s:1}":                                  {server + " " + pod("containers.image: r/s:1")},
		"images: {daemon: r/d:1}":                                  {daemon + " " + pod("containers.image: r/d:1"), server + " " + pod("initContainers.image: r/d:1")},
		"namespaces: {create: false}":                              {"- Namespace  bunsen-notifications", "- Namespace  bunsen-secrets", "- Namespace  bunsen-sources", "- Namespace  bunsen-system"},
		"controller: {replicas: 1}":                                {"- " + budgets + "controller", controller + " spec.replicas: 1"},
		"controller: {priorityClassName: p}":                       {controller + " " + pod("priorityClassName: p")},
		"controller: {nodeSelector: {a: b}}":                       {controller + " " + pod("nodeSelector.a: b")},
		"controller: {tolerations: [{key: k}]}":                    {controller + " " + pod("tolerations.key: k")},
		"controller: {resources: {limits: {memory: 3Gi}}}":         {controller + " " + pod("containers.resources.limits.memory: 3Gi")},
		"notifier: {enabled: false}":                               {"- " + notifier},
		"notifier: {nodeSelector: {a: b}}":                         {notifier + " " + pod("nodeSelector.a: b")},
		"notifier: {tolerations: [{key: k}]}":                      {notifier + " " + pod("tolerations.key: k")},
		"notifier: {resources: {limits: {memory: 3Gi}}}":           {notifier + " " + pod("containers.resources.limits.memory: 3Gi")},
		"server: {replicas: 1}":                                    {"- " + budgets + "server", server + " spec.replicas: 1"},
		"server: {priorityClassName: p}":                           {server + " " + pod("priorityClassName: p")},
		"server: {nodeSelector: {a: b}}":                           {server + " " + pod("nodeSelector.a: b")},
		"server: {tolerations: []}":                                {server},
		"server: {resources: {limits: {memory: 3Gi}}}":             {server + " " + pod("containers.resources.limits.memory: 3Gi")},
		"server: {hostnames: [api-int.example.com, 192.0.2.1]}":    {settings + " data.hostnames: api-int.example.com,192.0.2.1"},
		"server: {joinServer: 'https://api-int.example.com:6443'}": {settings + " data.join-server: https://api-int.example.com:6443"},
		"server: {enabled: false}":                                 {"+ ClusterRole  bunsen-nodes-read-configs", "+ ClusterRoleBinding  bunsen-nodes-read-configs", "- " + settings, "- " + server, "- " + budgets + "server"},
		"daemon: {enabled: false}":                                 {"- " + daemon},
		"daemon: {kubeconfig: /etc/k}":                             {daemon + " " + pod("containers.args: --kubeconfig=/etc/k")},
		"daemon: {priorityClassName: p}":                           {daemon + " " + pod("priorityClassName: p")},
		"daemon: {nodeSelector: {a: b}}":                           {daemon + " " + pod("nodeSelector.a: b")},
		"daemon: {tolerations: [{key: k}]}":                        {daemon + " " + pod("tolerations.key: k")},
		"daemon: {resources: {limits: {memory: 3Gi}}}":             {daemon + " " + pod("containers.resources.limits.memory: 3Gi")},
		"console: {enabled: true, hosts: [a, b], tlsSecret: s}":    {"+ " + console, "+ NetworkPolicy bunsen-system bunsen-console", "+ Service bunsen-system bunsen-console", "+ ServiceAccount bunsen-system bunsen-console"},
		"nodesReadConfigs: true":                                   {"+ ClusterRole  bunsen-nodes-read-configs", "+ ClusterRoleBinding  bunsen-nodes-read-configs"},
		"monitoring: {enabled: true}":                              {"+ ConfigMap bunsen-system bunsen-dashboard", "+ PrometheusRule bunsen-system bunsen"},
	} {
		t.Run(values, func(t *testing.T) {
			got, err := render(t, dir, values)
			if err != nil {
				t.Fatal(err)
			}
			if changes := changes(standard, got); !slices.Equal(changes, want) {
				t.Errorf("the changes are\n  %s\nwant\n  %s", strings.Join(changes, "\n  "), strings.Join(want, "\n  "))
			}
		})
	}
}

// changes returns the objects that were added and removed, and the new leaves of objects that changed.
func changes(before, after map[string]object) (out []string) {
	for name, o := range after {
		switch old := before[name]; {
		case old == nil:
			out = append(out, "+ "+name)
		case !cmp.Equal(old, o):
			known, added := leaves("", old), ""
			for _, leaf := range leaves("", o) {
				if !slices.Contains(known, leaf) {
					added += " " + leaf
				}
			}
			out = append(out, name+added)
		}
	}
	for name := range before {
		if after[name] == nil {
			out = append(out, "- "+name)
		}
	}
	slices.Sort(out)
	return out
}

// leaves returns each value of an object with its path, without the indexes of lists.
func leaves(path string, value any) (out []string) {
	switch v := value.(type) {
	case object:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, leaves(strings.TrimPrefix(path+"."+key, "."), v[key])...)
		}
	case []any:
		for _, item := range v {
			out = append(out, leaves(path, item)...)
		}
	default:
		text, err := yaml.Marshal(v)
		if err != nil {
			return []string{path + ": " + err.Error()}
		}
		out = append(out, path+": "+strings.TrimSpace(string(text)))
	}
	return out
}

// TestTheConsoleOfTheChart: its values are in its Deployment, and nothing else differs from the component.
func TestTheConsoleOfTheChart(t *testing.T) {
	dir := build(t)
	got, err := render(t, dir, "console: {enabled: true, hosts: [console.example.org, 'localhost:8443'], tlsSecret: "+
		"other, nodeSelector: {a: b}, tolerations: [{key: k}], resources: {limits: {memory: 2Gi}}}")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../config/components/console/console.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, string(source))
	for name := range all {
		all[name], got[name] = object{"o": all[name]}, object{"o": got[name]}
	}
	maps.DeleteFunc(got, func(name string, _ object) bool { return all[name] == nil })
	const pod = "o.spec.template.spec."
	want := []string{
		"Deployment bunsen-system bunsen-console " + strings.Join([]string{
			pod + "containers.env.value: console.example.org,localhost:8443",
			pod + "containers.image: registry.example.com/bunsen/bunsen" + digest,
			pod + "containers.resources.limits.memory: 2Gi", pod + "nodeSelector.a: b", pod + "tolerations.key: k",
			pod + "volumes.secret.secretName: other",
		}, " "),
	}
	if changes := changes(all, got); !slices.Equal(changes, want) {
		t.Errorf("the changes are\n  %s\nwant\n  %s", strings.Join(changes, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestTheAlertsKeepTheirTemplates: the chart does not evaluate the templates of alerts.
func TestTheAlertsKeepTheirTemplates(t *testing.T) {
	dir := build(t)
	got, err := render(t, dir, "monitoring: {enabled: true}")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../config/monitoring/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range objects(t, string(source)) {
		if diff := cmp.Diff(want["spec"], got[name]["spec"]); diff != "" {
			t.Errorf("%s (-config/ +chart):\n%s", name, diff)
		}
	}
}

// TestTheNameOfTheSettingsFollowsTheirContent: pods restart when a setting changes.
func TestTheNameOfTheSettingsFollowsTheirContent(t *testing.T) {
	dir := build(t)
	chart, err := os.ReadFile(filepath.Join(dir, "chart", "templates", "configmap_machine-config-server.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := os.ReadFile(filepath.Join(dir, "chart", "templates", "deployment_machine-config-server.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`machine-config-server-\{\{.*sha256sum.*\}\}`)
	in := name.FindString(string(chart))
	if in == "" || strings.Count(string(deployment), in) != 2 {
		t.Errorf("the name %q is not in the references of\n%s", in, deployment)
	}
}

// TestWrongValues are refused by the schema of the values.
func TestWrongValues(t *testing.T) {
	dir := build(t)
	for values, want := range map[string]string{
		"servers: {}":                              "servers",
		"images: {daemon: image.invalid/d:1}":      "images",
		"server: {joinServer: 'http://x'}":         "joinServer",
		"console: {enabled: true}":                 "hosts",
		"console: {hosts: [https://x]}":            "hosts",
		"controller: {replicas: 0}":                "replicas",
		"daemon: {kubeConfig: /etc/k}":             "kubeConfig",
		"server: {hostnames: api-int.example.com}": "hostnames",
	} {
		if _, err := render(t, dir, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", values, err, want)
		}
	}
}
