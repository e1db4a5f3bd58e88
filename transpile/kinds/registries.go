package kinds

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/transpile/origin"
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
	checkNamespaces(&p)
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
