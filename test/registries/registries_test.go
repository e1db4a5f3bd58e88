package registries

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// node writes the files that the documents become below a directory, and returns the directory. Each document lacks its
// apiVersion, its name and its annotation.
func node(t *testing.T, documents ...string) string {
	t.Helper()
	var all []kinds.RegistriesDocument
	for i, text := range documents {
		var doc map[string]any
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		kind, _ := doc["kind"].(string)
		doc["apiVersion"] = "config.openshift.io/v1"
		meta := map[string]any{
			"name":        fmt.Sprintf("document-%d", i),
			"annotations": map[string]any{"bunsen.dev/container-runtime": "crio,containerd"},
		}
		if namespace, ok := doc["namespace"]; ok {
			meta["namespace"] = namespace
			delete(doc, "namespace")
		}
		doc["metadata"] = meta
		source, err := yaml.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		at := origin.Map{At: map[string]origin.Pos{"$": {File: fmt.Sprintf("%d.yaml", i), Line: 1}}}
		all = append(all, kinds.RegistriesDocument{Kind: kind, ObjectInput: kinds.ObjectInput{
			Pool: "worker", Source: source,
			Origin: at,
		}})
	}
	out, findings := kinds.TranslateRegistries(all)
	if origin.Fatal(findings) {
		t.Fatal(findings)
	}
	root := t.TempDir()
	for _, f := range out.Config.Ignition.Storage.Files {
		text, err := machineconfig.Contents(f.Contents)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// system is a host whose configuration is below a directory.
func system(t *testing.T, root string) *types.SystemContext {
	t.Helper()
	conf := filepath.Join(root, "registries.conf")
	if err := os.WriteFile(conf, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return &types.SystemContext{
		SystemRegistriesConfPath: conf, SystemRegistriesConfDirPath: filepath.Join(root,
			"/etc/containers/registries.conf.d"),
		RegistriesDirPath: filepath.Join(root, "/etc/containers/registries.d"),
	}
}

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// mirrors are the documents of most tests.
var mirrors = []string{`
kind: ImageDigestMirrorSet
spec:
  imageDigestMirrors:
    - {source: quay.io, mirrors: ["mirror.example.com:5000/quay", backup.example.com]}
    - {source: registry.k8s.io, mirrors: [mirror.example.com/k8s], mirrorSourcePolicy: NeverContactSource}
    - {source: docker.io, mirrors: [hub.example.com]}
`, `
kind: ImageTagMirrorSet
spec:
  imageTagMirrors:
    - {source: quay.io, mirrors: [backup.example.com, tags.example.com]}
    - {source: "registry.example.org:5000", mirrors: [tags.example.com/org]}
`}

// parts are mirrors of parts of a registry, and of all hosts of a domain. containerd has no such mirrors.
var parts = []string{`
kind: ImageDigestMirrorSet
spec:
  imageDigestMirrors:
    - {source: quay.io/libpod, mirrors: [mirror.example.com/libpod]}
    - {source: quay.io, mirrors: [mirror.example.com/quay]}
    - {source: "*.example.org", mirrors: [mirror.example.com/org]}
`}

func TestCRIOPullsFromTheMirrorsOfTheDocuments(t *testing.T) {
	for _, c := range []struct {
		sentence  string
		documents []string
		image     string
		want      []string
		blocked   bool
	}{
		{"a digest comes from the mirrors for digests, then from the source", mirrors, "quay.io/libpod/alpine" + digest, []string{"mirror.example.com:5000/quay/libpod/alpine" + digest, "backup.example.com/libpod/alpine" + digest, "quay.io/libpod/alpine" + digest}, false},
		{"a tag comes from the mirrors for tags, then from the source", mirrors, "quay.io/libpod/alpine:3", []string{"backup.example.com/libpod/alpine:3", "tags.example.com/libpod/alpine:3", "quay.io/libpod/alpine:3"}, false},
		{"a source that nodes must not contact is blocked", mirrors, "registry.k8s.io/pause" + digest, []string{"mirror.example.com/k8s/pause" + digest, "registry.k8s.io/pause" + digest}, true},
		{"a tag of a blocked source without mirrors for tags is blocked", mirrors, "registry.k8s.io/pause:3", []string{"registry.k8s.io/pause:3"}, true},
		{"the library of docker.io has its path", mirrors, "docker.io/library/nginx" + digest, []string{"hub.example.com/library/nginx" + digest, "docker.io/library/nginx" + digest}, false},
		{"a source with a port", mirrors, "registry.example.org:5000/a:1", []string{"tags.example.com/org/a:1", "registry.example.org:5000/a:1"}, false},
		{"the longest source decides alone", parts, "quay.io/libpod/alpine" + digest, []string{"mirror.example.com/libpod/alpine" + digest, "quay.io/libpod/alpine" + digest}, false},
		{"a name that only begins like a source is not below it", parts, "quay.io/libpodder/a" + digest, []string{"mirror.example.com/quay/libpodder/a" + digest, "quay.io/libpodder/a" + digest}, false},
		{"all hosts of a domain", parts, "a.b.example.org/x" + digest, []string{"mirror.example.com/org/x" + digest, "a.b.example.org/x" + digest}, false},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			ctx := system(t, node(t, c.documents...))
			registry, err := sysregistriesv2.FindRegistry(ctx, c.image)
			if err != nil || registry == nil {
				t.Fatalf("%+v, %v", registry, err)
			}
			image, err := reference.ParseNamed(c.image)
			if err != nil {
				t.Fatal(err)
			}
			sources, err := registry.PullSourcesFromReference(image)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range sources {
				got = append(got, s.Reference.String())
				if s.Endpoint.Insecure {
					t.Errorf("%s is insecure", s.Reference)
				}
			}
			if !slices.Equal(got, c.want) || registry.Blocked != c.blocked {
				t.Errorf("%v, blocked %v\nwant %v", got, registry.Blocked, c.want)
			}
		})
	}
}

func TestCRIOHasNoMirrorsForOtherRegistries(t *testing.T) {
	ctx := system(t, node(t, parts...))
	for _, image := range []string{"gcr.io/a" + digest, "example.org/a" + digest, "quay.io.example.com/a" + digest} {
		if registry, err := sysregistriesv2.FindRegistry(ctx, image); err != nil || registry != nil {
			t.Errorf("%s: %+v, %v", image, registry, err)
		}
	}
}

func TestContainerdPullsFromTheMirrorsOfTheDocuments(t *testing.T) {
	root := node(t, mirrors...)
	hosts := config.ConfigureHosts(context.Background(),
		config.HostOptions{HostDir: config.HostDirFromRoot(filepath.Join(root, "/etc/containerd/certs.d"))})
	for _, c := range []struct {
		sentence, registry string
		want               []string
	}{
		{"mirrors in their order, then the source", "quay.io", []string{"https://mirror.example.com:5000/v2/quay pull", "https://backup.example.com/v2 pull resolve", "https://tags.example.com/v2 pull resolve", "https://quay.io/v2 pull resolve push"}},
		{"the last mirror takes the place of a source that nodes must not contact", "registry.k8s.io", []string{"https://mirror.example.com/v2/k8s pull"}},
		{"docker.io is the host that serves its images", "docker.io", []string{"https://hub.example.com/v2 pull", "https://registry-1.docker.io/v2 pull resolve push"}},
		{"a source with a port", "registry.example.org:5000", []string{"https://tags.example.com/v2/org pull resolve", "https://registry.example.org:5000/v2 pull resolve push"}},
		{"another registry has no mirrors", "gcr.io", []string{"https://gcr.io/v2 pull resolve push"}},
	} {
		found, err := hosts(c.registry)
		if err != nil {
			t.Errorf("%s: %v", c.sentence, err)
			continue
		}
		var got []string
		for _, h := range found {
			text := h.Scheme + "://" + h.Host + h.Path
			for _, can := range []struct {
				what docker.HostCapabilities
				name string
			}{
				{docker.HostCapabilityPull, "pull"},
				{docker.HostCapabilityResolve, "resolve"},
				{docker.HostCapabilityPush, "push"},
			} {
				if h.Capabilities.Has(can.what) {
					text += " " + can.name
				}
			}
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.sentence, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
