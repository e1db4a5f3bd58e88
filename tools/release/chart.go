package main

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// chartSources are the files of the chart that do not come from config/. The defaults of values.yaml produce
// config/default; values.schema.json refuses values that the chart does not have, and an image that is not set.
//
//go:embed chart
var chartSources embed.FS

// chartObject is one object of config/default as a template of the chart.
type chartObject struct {
	node *yaml.RNode
	// file is the name of the object's template.
	file string
	// condition is the template expression that decides whether the chart has the object. If it is empty, the chart
	// always has the object.
	condition string
	// expressions are the template expressions of the object, each with the placeholder that stands for it.
	expressions map[string]string
}

// writeChart writes the chart into the directory chart.
func writeChart(root, out, version string) error {
	files, err := chartFiles(root, out, version)
	if err != nil {
		return err
	}
	dir := filepath.Join(out, "chart")
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the earlier chart: %w", err)
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("creating a directory of the chart: %w", err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the chart: %w", err)
		}
	}
	return nil
}

// packChart writes the chart as an archive, which helm install and helm push read.
func packChart(root, out string, c commit) error {
	files, err := chartFiles(root, out, c.Version)
	if err != nil {
		return err
	}
	var all []file
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, file{"bunsen/" + name, 0o644, []byte(files[name])})
	}
	name := "bunsen-" + chartVersion(c.Version) + ".tgz"
	content, err := compressedArchive(name, all, c.Time)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
		return fmt.Errorf("writing the chart: %w", err)
	}
	return nil
}

// chartFiles returns the files of a Helm chart with the objects of config/default, config/monitoring, and the
// components for the console and for clusters without the server. The default images of the chart are the images in
// images.json.
func chartFiles(root, out, version string) (map[string]string, error) {
	images, err := readImages(out)
	if err != nil {
		return nil, err
	}
	objects, err := chartObjects(root)
	if err != nil {
		return nil, err
	}
	about, err := chartFile(version, objects, images)
	if err != nil {
		return nil, err
	}
	files := map[string]string{"Chart.yaml": about}
	for name, source := range map[string]string{
		"values.yaml":        "values.yaml",
		"values.schema.json": "values.schema.json", "templates/NOTES.txt": "NOTES.txt",
	} {
		text, err := chartSources.ReadFile("chart/" + source)
		if err != nil {
			return nil, fmt.Errorf("reading a file of the chart: %w", err)
		}
		files[name] = string(text)
	}
	for _, program := range append(slices.Collect(maps.Keys(valuesOf)), "bunsen") {
		if images[program] == "" {
			return nil, fmt.Errorf("images.json has no image of %s", program)
		}
		files["values.yaml"] = strings.ReplaceAll(files["values.yaml"], unsetImage(program), images[program])
	}
	for _, o := range objects {
		text, err := o.template()
		if err != nil {
			return nil, err
		}
		if _, twice := files["templates/"+o.file]; twice {
			return nil, fmt.Errorf("writing the chart: two objects have the template %s", o.file)
		}
		files["templates/"+o.file] = text
	}
	return files, nil
}

// readImages returns the references of images.json.
func readImages(out string) (map[string]string, error) {
	raw, err := os.ReadFile(filepath.Join(out, "images.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the list of images (make images PUSH=... writes it): %w", err)
	}
	var images map[string]string
	if err := json.Unmarshal(raw, &images); err != nil {
		return nil, fmt.Errorf("reading the list of images: %w", err)
	}
	return images, nil
}

// chartObjects returns the objects of the chart, with their expressions.
func chartObjects(root string) ([]*chartObject, error) {
	var all []*chartObject
	for _, part := range []struct{ dir, condition string }{
		{"default", ""},
		{"monitoring", ".Values.monitoring.enabled"},
		{"components/console/console.yaml", ".Values.console.enabled"},
		{"components/nodes-read-configs/rights.yaml", "or .Values.nodesReadConfigs (not .Values.server.enabled)"},
	} {
		nodes, err := objectsOf(filepath.Join(root, "config", part.dir))
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			o := &chartObject{
				node: node, file: templateName(node), condition: part.condition,
				expressions: map[string]string{},
			}
			if err := o.parametrize(); err != nil {
				return nil, fmt.Errorf("writing the template of %s %s: %w", node.GetKind(), node.GetName(), err)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// templateName returns the name of an object's template.
func templateName(node *yaml.RNode) string {
	name := strings.ToLower(node.GetKind()) + "_" + node.GetName() + ".yaml"
	switch node.GetKind() {
	case "ConfigMap":
		return settingsSuffix.ReplaceAllString(name, "$1")
	case "CustomResourceDefinition":
		return "crds/" + name
	case "Role", "RoleBinding":
		return node.GetNamespace() + "_" + name
	}
	return name
}

// settingsSuffix is the digest at the end of the name of the server's ConfigMap.
var settingsSuffix = regexp.MustCompile(`(machine-config-server)-[a-z0-9]{10}`)

// objectsOf returns the objects of a kustomize directory or of a file.
func objectsOf(path string) ([]*yaml.RNode, error) {
	var text string
	if filepath.Ext(path) == ".yaml" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading objects: %w", err)
		}
		text = string(raw)
	} else {
		var err error
		if text, err = kustomize(path); err != nil {
			return nil, err
		}
	}
	var nodes []*yaml.RNode
	for _, document := range strings.Split(text, "\n---\n") {
		node, err := yaml.Parse(document)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if err := node.PipeE(yaml.ClearAnnotation("internal.config.kubernetes.io/index")); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// set replaces a field by a template expression.
func (o *chartObject) set(expression string, path ...string) error {
	placeholder := fmt.Sprintf("EXPRESSION-%d-", len(o.expressions))
	o.expressions[placeholder] = expression
	parent, err := o.node.Pipe(yaml.LookupCreate(yaml.MappingNode, path[:len(path)-1]...))
	if err != nil {
		return fmt.Errorf("setting %s: %w", strings.Join(path, "."), err)
	}
	last := path[len(path)-1]
	// The old value is removed first, because the new value would otherwise have the quotes of the old value.
	if err := parent.PipeE(yaml.Clear(last)); err != nil {
		return fmt.Errorf("clearing %s: %w", strings.Join(path, "."), err)
	}
	if err := parent.PipeE(yaml.SetField(last, yaml.NewStringRNode(placeholder))); err != nil {
		return fmt.Errorf("setting %s: %w", strings.Join(path, "."), err)
	}
	return nil
}

// valuesOf are the names of the programs in values.yaml.
var valuesOf = map[string]string{
	"machine-config-controller": "controller",
	"machine-config-server":     "server",
	"machine-config-daemon":     "daemon",
}

// parametrize sets the expressions of an object.
func (o *chartObject) parametrize() error {
	program := valuesOf[o.node.GetName()]
	switch o.node.GetKind() {
	case "CustomResourceDefinition":
		return o.keep()
	case "Namespace":
		o.condition = ".Values.namespaces.create"
		return o.keep()
	case "Deployment", "DaemonSet":
		switch o.node.GetName() {
		case "machine-config-notifier":
			return o.notifier()
		case "bunsen-console":
			return o.console()
		}
		return o.workload(program)
	case "PodDisruptionBudget":
		o.condition = "gt (int .Values." + program + ".replicas) 1"
		if program == "server" {
			o.condition = "and .Values.server.enabled (" + o.condition + ")"
		}
	case "ConfigMap":
		if strings.HasPrefix(o.node.GetName(), "machine-config-server-") {
			return o.settings()
		}
	}
	return nil
}

// keep makes helm uninstall leave the object: with such an object, a user would lose pools, configs or the server's CA.
func (o *chartObject) keep() error {
	return o.node.PipeE(yaml.SetAnnotation("helm.sh/resource-policy", "keep"))
}

// settingsName is the name of the server's ConfigMap. The name changes with the content of the ConfigMap, so that the
// pods restart.
const settingsName = `machine-config-server-{{ printf "%s %s" (join "," .Values.server.hostnames) .Values.server.joinServer | sha256sum | trunc 10 }}`

// settings parametrizes the ConfigMap of the server.
func (o *chartObject) settings() error {
	o.condition = ".Values.server.enabled"
	if err := o.set(settingsName, "metadata", "name"); err != nil {
		return err
	}
	if err := o.set(`{{ join "," .Values.server.hostnames | quote }}`, "data", "hostnames"); err != nil {
		return err
	}
	return o.set(`{{ .Values.server.joinServer | quote }}`, "data", "join-server")
}

// workload parametrizes a Deployment or the DaemonSet.
func (o *chartObject) workload(program string) error {
	if program != "controller" {
		o.condition = ".Values." + program + ".enabled"
	}
	spec := []string{"spec", "template", "spec"}
	value := func(name string) string { return "{{ toYaml .Values." + program + "." + name + " | nindent INDENT }}" }
	if o.node.GetKind() == "Deployment" {
		if err := o.set("{{ .Values."+program+".replicas }}", "spec", "replicas"); err != nil {
			return err
		}
	}
	for _, field := range []string{"tolerations", "nodeSelector"} {
		if err := o.set(value(field), append(slices.Clone(spec), field)...); err != nil {
			return err
		}
	}
	if err := o.set("{{ .Values."+program+".priorityClassName | quote }}",
		append(slices.Clone(spec), "priorityClassName")...); err != nil {
		return err
	}
	container := append(slices.Clone(spec), "containers", "[name="+o.node.GetName()+"]")
	if err := o.set("{{ .Values.images."+program+" | quote }}",
		append(slices.Clone(container), "image")...); err != nil {
		return err
	}
	if err := o.set(value("resources"), append(slices.Clone(container), "resources")...); err != nil {
		return err
	}
	switch program {
	case "server":
		if err := o.set("{{ .Values.images.daemon | quote }}", append(slices.Clone(spec), "initContainers",
			"[name=daemon]", "image")...); err != nil {
			return err
		}
		return o.settingsReferences(container)
	case "daemon":
		return o.daemonArguments(container)
	}
	return nil
}

// settingsReferences parametrizes the references to the server's ConfigMap.
func (o *chartObject) settingsReferences(container []string) error {
	for _, variable := range []string{"HOSTNAMES", "JOIN_SERVER"} {
		if err := o.set(settingsName, append(slices.Clone(container), "env", "[name="+variable+"]", "valueFrom",
			"configMapKeyRef", "name")...); err != nil {
			return err
		}
	}
	return nil
}

// daemonArguments adds the argument for a kubeconfig at a path that the daemon does not know.
func (o *chartObject) daemonArguments(container []string) error {
	args, err := o.node.Pipe(yaml.Lookup(append(slices.Clone(container), "args")...))
	if err != nil {
		return fmt.Errorf("reading the daemon's arguments: %w", err)
	}
	placeholder := fmt.Sprintf("EXPRESSION-%d-", len(o.expressions))
	o.expressions["- "+placeholder] = "{{- with .Values.daemon.kubeconfig }}\n" +
		"INDENT- {{ printf \"--kubeconfig=%s\" . | quote }}\nINDENT{{- end }}"
	return args.PipeE(yaml.Append(yaml.NewStringRNode(placeholder).YNode()))
}

// template returns the object with its expressions in place.
func (o *chartObject) template() (string, error) {
	text, err := o.node.String()
	if err != nil {
		return "", fmt.Errorf("writing %s %s: %w", o.node.GetKind(), o.node.GetName(), err)
	}
	text = strings.ReplaceAll(text, "{{", "{{ `{{` }}") // Alerts contain template expressions of Prometheus.
	var b strings.Builder
	if o.condition != "" {
		b.WriteString("{{- if " + o.condition + " }}\n")
	}
	for line := range strings.Lines(text) {
		b.WriteString(o.line(line))
	}
	if o.condition != "" {
		b.WriteString("{{- end }}\n")
	}
	return b.String(), nil
}

// line returns a line with its expression in place of the placeholder. In an expression, INDENT stands for the
// indentation of the line as text, or for the number of spaces in front of the value's own lines.
func (o *chartObject) line(line string) string {
	for _, placeholder := range slices.Sorted(maps.Keys(o.expressions)) {
		if !strings.Contains(line, placeholder) {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		expression := strings.ReplaceAll(o.expressions[placeholder], "nindent INDENT",
			fmt.Sprintf("nindent %d", indent+2))
		expression = strings.ReplaceAll(expression, "INDENT", strings.Repeat(" ", indent))
		return strings.ReplaceAll(line, placeholder, expression)
	}
	return line
}

// semantic matches a version that Helm accepts.
var semantic = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// chartVersion returns the version of the chart: that of a tag, with or without its v. Helm accepts only semantic
// versions, so every other build has the version 0.0.0.
func chartVersion(version string) string {
	if number := strings.TrimPrefix(version, "v"); semantic.MatchString(number) {
		return number
	}
	return "0.0.0-g" + strings.Map(semverRune, version)
}

// chartFile returns Chart.yaml, with what Artifact Hub shows of the chart:
// https://artifacthub.io/docs/topics/annotations/helm
func chartFile(version string, objects []*chartObject, images map[string]string) (string, error) {
	type crd struct {
		Kind        string `yaml:"kind"`
		Version     string `yaml:"version"`
		Name        string `yaml:"name"`
		DisplayName string `yaml:"displayName"`
		Description string `yaml:"description"`
	}
	type image struct {
		Name  string `yaml:"name"`
		Image string `yaml:"image"`
	}
	type link struct {
		Name string `yaml:"name"`
		URL  string `yaml:"url"`
	}
	var crds []crd
	for _, o := range objects {
		if o.node.GetKind() != "CustomResourceDefinition" {
			continue
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := sigsyaml.Unmarshal([]byte(o.node.MustString()), &definition); err != nil {
			return "", fmt.Errorf("reading CustomResourceDefinition %s: %w", o.node.GetName(), err)
		}
		spec := definition.Spec
		newest := spec.Versions[len(spec.Versions)-1]
		text := spec.Names.Kind
		if schema := newest.Schema; schema != nil && schema.OpenAPIV3Schema != nil {
			text, _, _ = strings.Cut(cmp.Or(schema.OpenAPIV3Schema.Description, text), "\n")
		}
		crds = append(crds, crd{spec.Names.Kind, newest.Name, definition.Name, spec.Names.Kind, text})
	}
	slices.SortFunc(crds, func(a, b crd) int { return strings.Compare(a.Name, b.Name) })
	var shown []image
	for _, program := range slices.Sorted(maps.Keys(images)) {
		shown = append(shown, image{program, images[program]})
	}
	annotations := map[string]string{
		"artifacthub.io/category": "integration-delivery", "artifacthub.io/license": "Apache-2.0",
		"artifacthub.io/operator": "true", "artifacthub.io/operatorCapabilities": "Full Lifecycle",
		"artifacthub.io/prerelease": fmt.Sprint(strings.Contains(chartVersion(version), "-")),
	}
	for name, value := range map[string]any{
		"crds": crds, "images": shown, "links": []link{
			{"Documentation", homepage + "/blob/main/docs/README.md"},
			{"Examples", homepage + "/tree/main/examples"},
			{"Changes", homepage + "/blob/main/CHANGELOG.md"},
			{"Security", homepage + "/blob/main/SECURITY.md"},
		},
	} {
		text, err := yaml.Marshal(value)
		if err != nil {
			return "", fmt.Errorf("writing the annotations of the chart: %w", err)
		}
		annotations["artifacthub.io/"+name] = string(text)
	}
	text, err := yaml.Marshal(struct {
		APIVersion  string            `yaml:"apiVersion"`
		Name        string            `yaml:"name"`
		Description string            `yaml:"description"`
		Type        string            `yaml:"type"`
		Version     string            `yaml:"version"`
		AppVersion  string            `yaml:"appVersion"`
		KubeVersion string            `yaml:"kubeVersion"`
		Home        string            `yaml:"home"`
		Sources     []string          `yaml:"sources"`
		Keywords    []string          `yaml:"keywords"`
		Annotations map[string]string `yaml:"annotations"`
	}{
		"v2", "bunsen", "Manages the operating system of a cluster's nodes from a git repository", "application",
		chartVersion(version), version, ">=1.30.0-0", homepage,
		[]string{homepage},
		[]string{"butane", "coreos", "flatcar", "gitops", "ignition", "machine-config", "nodes", "operating-system"},
		annotations,
	})
	if err != nil {
		return "", fmt.Errorf("writing Chart.yaml: %w", err)
	}
	return string(text), nil
}

// semverRune maps a rune to one that a semantic version may have.
func semverRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
		return r
	}
	return '-'
}
