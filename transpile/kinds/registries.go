package kinds

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/origin"
	configv1 "github.com/openshift/api/config/v1"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
)

// Kinds of documents.
const (
	DigestMirrors = "ImageDigestMirrorSet"
	TagMirrors    = "ImageTagMirrorSet"
	ContentSource = "ImageContentSourcePolicy"
	// ClusterPolicy and NamespacePolicy require signatures of images.
	ClusterPolicy   = "ClusterImagePolicy"
	NamespacePolicy = "ImagePolicy"
)

// IsRegistriesKind reports whether an object is a document about registries.
func IsRegistriesKind(apiVersion, kind string) bool {
	switch kind {
	case DigestMirrors, TagMirrors, ClusterPolicy, NamespacePolicy:
		return apiVersion == configv1.GroupVersion.String()
	case ContentSource:
		return apiVersion == operatorv1alpha1.GroupVersion.String()
	}
	return false
}

// FragmentName returns the name of the MachineConfig for all documents of a pool about registries. It is the name that
// OpenShift uses.
func FragmentName(pool string) string { return "99-" + pool + "-generated-registries" }

const (
	ruleField   = "field"
	ruleName    = "registry-name"
	ruleOrder   = "mirror-order"
	rulePolicy  = "mirror-source-policy"
	ruleNothing = "no-effect"
)

// RegistriesDocument is one document of a pool.
type RegistriesDocument struct {
	// Kind is one of the Kinds.
	Kind string
	ObjectInput
}

// TranslateRegistries translates all documents of a pool about registries to one config. Documents with the same source
// are merged. The output is the zero value if a finding is fatal.
func TranslateRegistries(docs []RegistriesDocument) (ObjectOutput, []origin.Finding) {
	p := pool{sources: map[scope]*source{}}
	for _, d := range docs {
		p.read(d)
	}
	p.merge()
	p.checkNamespaces()
	out := ObjectTranslation{In: whole(docs), At: map[string]origin.Pos{}, Findings: p.findings}
	if origin.Fatal(p.findings) {
		return out.End()
	}
	sources := slices.SortedFunc(maps.Values(p.sources), func(a, b *source) int { return cmp.Compare(a.name, b.name) })
	for _, s := range sources {
		if len(s.digest)+len(s.tag) > 0 {
			out.AddFileAt(confPath(s.name), s.conf(), s.at)
		}
	}
	for _, s := range sources {
		if len(s.hosts) > 0 {
			out.AddFileAt(hostsPath(s.name), s.hostsFile(), s.at)
		}
	}
	p.addPolicies(&out)
	if len(out.Config.Storage.Files) == 0 && !origin.Fatal(out.Findings) {
		out.Errorf("$", "document", "the documents about registries set nothing: add mirrors or a signature policy")
	}
	return out.End()
}

// hostsPath returns the path of a source's file.
func hostsPath(name scope) string { return hostsDir + string(name) + "/hosts.toml" }

// confPath returns the path of a source's file.
func confPath(name scope) string { return confDir + "90-registry-" + name.fileName() + ".conf" }

// checkNamespaces refuses a scope of a namespace that a policy of the cluster covers: the more precise one would
// replace it.
func (p *pool) checkNamespaces() {
	for _, s := range p.policies {
		if s.namespace == "" {
			continue
		}
		for _, scope := range s.scopes {
			for _, cluster := range p.policies {
				for _, wide := range cluster.scopes {
					if cluster.namespace == "" && holds(wide.name, scope.name) {
						p.errorf(scope.at, "policy-scope", "%s is within %s, for which a %s at %s decides: remove "+
							"one of the two", scope.name, wide.name, ClusterPolicy, wide.at)
					}
				}
			}
		}
	}
}

// whole returns the input that stands for all documents: it begins where the first one does.
func whole(docs []RegistriesDocument) ObjectInput {
	out := ObjectInput{Origin: origin.Map{At: map[string]origin.Pos{}}}
	for i, d := range docs {
		if i == 0 {
			out.Pool = d.Pool
			out.Origin.At["$"], _ = d.Origin.Find("$")
		}
		out.Origin.Files = append(out.Origin.Files, d.Origin.Files...)
	}
	slices.SortFunc(out.Origin.Files, func(a, b origin.File) int { return cmp.Compare(a.Path, b.Path) })
	out.Origin.Files = slices.Compact(out.Origin.Files)
	return out
}

// pool is what the documents of a pool say.
type pool struct {
	sources  map[scope]*source
	policies []signaturePolicy
	findings []origin.Finding
}

// source is a registry, or a part of one, with everything that documents say about it.
type source struct {
	name scope
	// at is the first line that names the source.
	at    origin.Pos
	lists []mirrorList
	// never is true if nodes must not contact the source. policyAt is the line that decided it.
	never    bool
	policyAt origin.Pos
	// digest and tag are the merged mirrors of CRI-O for images with a digest and with a tag.
	digest, tag []scope
	// hosts are the merged mirrors of containerd. tagHosts are those of them that serve tags.
	hosts, tagHosts []scope
}

// mirrorList is one list of mirrors of one document.
type mirrorList struct {
	runtimes Runtimes
	tags     bool
	mirrors  []mirror
}

// mirror is one mirror of a list.
type mirror struct {
	name scope
	at   origin.Pos
}

// source returns the entry of a source, which it creates.
func (p *pool) source(name scope, at origin.Pos) *source {
	s, ok := p.sources[name]
	if !ok {
		s = &source{name: name, at: at}
		p.sources[name] = s
	}
	return s
}

func (p *pool) errorf(at origin.Pos, rule, format string, args ...any) {
	p.findings = append(p.findings, origin.Errorf(at, rule, format, args...))
}

func (p *pool) warnf(at origin.Pos, rule, format string, args ...any) {
	p.findings = append(p.findings, origin.Warningf(at, rule, format, args...))
}

// runtimes reads which container runtimes a document is for.
func (p *pool) runtimes(d RegistriesDocument, annotations map[string]string) Runtimes {
	out, err := RuntimesOf(annotations)
	if err != nil {
		p.errorf(at(d, "$.metadata.annotations."+v1alpha1.ContainerRuntimeAnnotation), ruleRuntime, "%v", err)
	}
	if out.Default {
		p.warnf(at(d, "$.kind"), ruleRuntime,
			"the document names no container runtime, so it configures CRI-O and "+
				"Podman only, and nodes with containerd ignore it. Set the annotation %s to crio, to containerd, or "+
				"to "+
				"both with a comma; a kustomization sets it for a whole pool in commonAnnotations",
			v1alpha1.ContainerRuntimeAnnotation)
	}
	return out
}

// at returns the position of a path in a document.
func at(d RegistriesDocument, path string) origin.Pos {
	pos, _ := d.Origin.Find(path)
	return pos
}

// item returns the path of an item of a list.
func item(list string, index int) string { return list + "." + strconv.Itoa(index) }

// confDir has the files that CRI-O, Podman and others read after registries.conf. An entry there replaces an entry for
// the same registry in registries.conf.
const confDir = "/etc/containers/registries.conf.d/"

// conf returns the text of a source's file, in version 2 of containers-registries.conf(5).
func (s *source) conf() string {
	var b strings.Builder
	b.WriteString("[[registry]]\n")
	if s.name.isWildcard() {
		b.WriteString("prefix = " + quotedScope(string(s.name)) + "\n")
	} else {
		b.WriteString("location = " + quotedScope(string(s.name)) + "\n")
	}
	if s.never {
		b.WriteString("blocked = true\n")
	}
	mirrors := func(list []scope, pull string) {
		for _, m := range list {
			b.WriteString("\n[[registry.mirror]]\nlocation = " + quotedScope(string(m)) + "\npull-from-mirror = " +
				quotedScope(pull) + "\n")
		}
	}
	mirrors(s.digest, "digest-only")
	mirrors(s.tag, "tag-only")
	return b.String()
}

// quotedScope returns a text as a TOML string. It escapes nothing, because scopes contain only letters, digits and
// ._:/*-
func quotedScope(text string) string { return `"` + text + `"` }

// Names of container runtimes in the annotation.
const (
	runtimeCRIO       = "crio"
	runtimeContainerd = "containerd"
)

// Runtimes are the container runtimes that a document configures.
type Runtimes struct {
	// CRIO also stands for the other programs that read the files below /etc/containers: Podman, Buildah and Skopeo.
	CRIO bool
	// Containerd is true for nodes with containerd.
	Containerd bool
	// Default is true if the document names no runtime. Then CRIO is true.
	Default bool
}

// RuntimesOf reads the annotation of a document that names its container runtimes, with commas between them.
func RuntimesOf(annotations map[string]string) (Runtimes, error) {
	text, set := annotations[v1alpha1.ContainerRuntimeAnnotation]
	if !set {
		return Runtimes{CRIO: true, Default: true}, nil
	}
	var out Runtimes
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case slices.Contains(names, name):
			return Runtimes{}, fmt.Errorf("%s: %q stands twice; keep one", v1alpha1.ContainerRuntimeAnnotation, name)
		case name == runtimeCRIO:
			out.CRIO = true
		case name == runtimeContainerd:
			out.Containerd = true
		case name == "k3s" || name == "rke2":
			return Runtimes{}, fmt.Errorf("%s: Bunsen has no output for %q: k3s and RKE2 write the files of "+
				"containerd themselves. Write /etc/rancher/%s/registries.yaml in a Butane document",
				v1alpha1.ContainerRuntimeAnnotation, name, name)
		default:
			return Runtimes{}, fmt.Errorf("%s: %q is not a container runtime that Bunsen has output for: write %s, "+
				"%s, or both with a comma", v1alpha1.ContainerRuntimeAnnotation, name, runtimeCRIO, runtimeContainerd)
		}
		names = append(names, name)
	}
	return out, nil
}

// hostsDir has a directory for each registry with a file that containerd reads for each pull, if config_path in its
// config names the directory.
const hostsDir = "/etc/containerd/certs.d/"

// forContainerd reports whether containerd can have mirrors of the source: it chooses them by registry only.
func (s *source) forContainerd() bool { return !s.name.isWildcard() && s.name.path() == "" }

// hostsFile returns the text of a source's hosts.toml. Without `server`, containerd tries the registry after all hosts.
// If nodes must not contact it, the last mirror takes its place.
func (s *source) hostsFile() string {
	mirrors := s.hosts
	var b strings.Builder
	if s.never {
		last := mirrors[len(mirrors)-1]
		mirrors = mirrors[:len(mirrors)-1]
		b.WriteString("server = " + quotedScope(address(last)) + "\n" + s.endpoint(last, ""))
	}
	for i, m := range mirrors {
		if i > 0 || s.never {
			b.WriteString("\n")
		}
		b.WriteString("[host." + quotedScope(address(m)) + "]\n" + s.endpoint(m, "  "))
	}
	return b.String()
}

// endpoint returns the settings of one mirror. A mirror for tags finds the digest of a tag; content is always pulled by
// digest, so that each mirror for tags also serves digests.
func (s *source) endpoint(m scope, indent string) string {
	text := indent + `capabilities = ["pull"]` + "\n"
	if slices.Contains(s.tagHosts, m) {
		text = indent + `capabilities = ["pull", "resolve"]` + "\n"
	}
	if m.path() != "" { // the address has more after /v2, and containerd would append another /v2
		text += indent + "override_path = true\n"
	}
	return text
}

// dockerHub is the host that serves the images of docker.io.
const dockerHub = "registry-1.docker.io"

// address returns the URL of a mirror.
func address(m scope) string {
	host := m.host()
	if host == "docker.io" {
		host = dockerHub
	}
	if m.path() == "" {
		return "https://" + host
	}
	return "https://" + host + "/v2/" + m.path()
}
