package kinds

import (
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// mirrorItem is one item of a document with mirrors, whatever its kind.
type mirrorItem struct {
	source  string
	mirrors []string
	policy  configv1.MirrorSourcePolicy
}

// read reads one document.
func (p *pool) read(d RegistriesDocument) {
	t, ok := BeginObject(d.ObjectInput)
	if !ok {
		p.findings = append(p.findings, t.Findings...)
		return
	}
	if d.Kind == ClusterPolicy || d.Kind == NamespacePolicy {
		p.readPolicy(d, t)
		return
	}
	var annotations map[string]string
	var items []mirrorItem
	var path string
	switch d.Kind {
	case DigestMirrors:
		var doc configv1.ImageDigestMirrorSet
		ok = t.Decode(d.Kind, &doc)
		annotations, path = doc.Annotations, "$.spec.imageDigestMirrors"
		for _, m := range doc.Spec.ImageDigestMirrors {
			items = append(items, mirrorItem{m.Source, texts(m.Mirrors), m.MirrorSourcePolicy})
		}
	case TagMirrors:
		var doc configv1.ImageTagMirrorSet
		ok = t.Decode(d.Kind, &doc)
		annotations, path = doc.Annotations, "$.spec.imageTagMirrors"
		for _, m := range doc.Spec.ImageTagMirrors {
			items = append(items, mirrorItem{m.Source, texts(m.Mirrors), m.MirrorSourcePolicy})
		}
	case ContentSource:
		var doc operatorv1alpha1.ImageContentSourcePolicy
		ok = t.Decode(d.Kind, &doc)
		annotations, path = doc.Annotations, "$.spec.repositoryDigestMirrors"
		for _, m := range doc.Spec.RepositoryDigestMirrors {
			items = append(items, mirrorItem{source: m.Source, mirrors: m.Mirrors})
		}
	}
	p.findings = append(p.findings, t.Findings...)
	if !ok {
		return
	}
	runtimes := p.runtimes(d, annotations)
	if len(items) == 0 {
		p.warnf(at(d, "$.spec"), ruleNothing, "the %s has no mirrors, so it has no effect: add an item to %s, or "+
			"remove the document", d.Kind, path[len("$."):])
	}
	for i, it := range items {
		p.addItem(d, item(path, i), it, runtimes)
	}
}

func texts(mirrors []configv1.ImageMirror) []string {
	out := make([]string, len(mirrors))
	for i, m := range mirrors {
		out[i] = string(m)
	}
	return out
}

// addItem adds one item of a document to its source.
func (p *pool) addItem(d RegistriesDocument, path string, it mirrorItem, runtimes Runtimes) {
	sourceAt := at(d, path+".source")
	bad := badScope(it.source, true)
	if bad != "" {
		p.errorf(sourceAt, ruleName, "the source %s", bad)
	}
	list := mirrorList{runtimes, d.Kind == TagMirrors, p.mirrors(d, path+".mirrors", it)}
	never := it.policy == configv1.NeverContactSource
	if !never && it.policy != "" && it.policy != configv1.AllowContactingSource {
		p.errorf(at(d, path+".mirrorSourcePolicy"), ruleField, "mirrorSourcePolicy is %s or %s",
			configv1.NeverContactSource, configv1.AllowContactingSource)
		return
	}
	if bad != "" {
		return
	}
	name := scope(it.source)
	if !hasOther(list.mirrors, name) {
		if len(it.mirrors) == len(list.mirrors) { // otherwise a mirror has an error of its own
			p.warnf(sourceAt, ruleNothing, "%s has no mirror other than itself, so the item has no effect: add a "+
				"mirror, or remove the item", name)
		}
		return
	}
	s := p.source(name, sourceAt)
	policyAt := sourceAt
	if it.policy != "" {
		policyAt = at(d, path+".mirrorSourcePolicy")
	}
	p.addPolicy(policyAt, s, never, list)
	p.checkContainerd(name, runtimes, sourceAt)
	s.lists = append(s.lists, list)
}

// mirrors reads a list of mirrors.
func (p *pool) mirrors(d RegistriesDocument, path string, it mirrorItem) (out []mirror) {
	seen := map[string]origin.Pos{}
	for i, text := range it.mirrors {
		pos := at(d, item(path, i))
		if bad := badScope(text, false); bad != "" {
			p.errorf(pos, ruleName, "the mirror %s", bad)
			continue
		}
		if first, twice := seen[text]; twice {
			p.errorf(pos, ruleName, "the mirror %s stands twice in the list, first at %s; keep one", text, first)
			continue
		}
		seen[text] = pos
		out = append(out, mirror{scope(text), pos})
	}
	return out
}

// addPolicy records whether nodes may contact the source, as the line at pos says. All items of one source must agree.
func (p *pool) addPolicy(pos origin.Pos, s *source, never bool, list mirrorList) {
	if len(s.lists) > 0 && s.never != never {
		p.errorf(pos, rulePolicy, "the mirrorSourcePolicy of %s is %s here, and %s at %s: write the same in both. "+
			"Without the field it is %s", s.name, sourcePolicy(never), sourcePolicy(s.never), s.policyAt,
			configv1.AllowContactingSource)
		return
	}
	s.never, s.policyAt = never, pos
	for _, m := range list.mirrors {
		if never && m.name == s.name {
			p.errorf(m.at, rulePolicy, "%s is one of its own mirrors, and mirrorSourcePolicy %s at %s forbids nodes "+
				"to contact it: remove one of the two", s.name, configv1.NeverContactSource, pos)
		}
	}
}

func sourcePolicy(never bool) configv1.MirrorSourcePolicy {
	if never {
		return configv1.NeverContactSource
	}
	return configv1.AllowContactingSource
}

// checkContainerd reports a source that containerd cannot have: an error if the document is for containerd alone.
func (p *pool) checkContainerd(name scope, r Runtimes, pos origin.Pos) {
	if !r.Containerd {
		return
	}
	report := p.errorf
	if r.CRIO {
		report = p.warnf
	}
	switch {
	case name.isWildcard():
		report(pos, ruleRuntime,
			"containerd has no wildcards, so its nodes do not use the mirrors of %s: name each "+
				"registry", name)
	case name.path() != "":
		report(pos, ruleRuntime,
			"containerd chooses mirrors by registry only, so its nodes do not use those of %s. "+
				"Write the source %s, with mirrors that have all its images", name, name.host())
	}
}

// hasOther reports whether a list has a mirror other than the source.
func hasOther(mirrors []mirror, source scope) bool {
	for _, m := range mirrors {
		if m.name != source {
			return true
		}
	}
	return false
}
