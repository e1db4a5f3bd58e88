package poolstate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Published has what the cluster says about the secrets of rendered configs. The zero value is a cluster without
// secrets.
type Published struct {
	// Revisions are the entries of v1alpha1.SecretsConfigMap by rendered config.
	Revisions map[string]v1alpha1.SecretsRevision
	// Refers reports whether a rendered config refers to secrets; nil if none does. It matters only for configs without
	// an entry: the server may not have published one yet.
	Refers func(config string) bool
	// Unread is true if a user may not read the revisions.
	Unread bool
}

// Secrets are the secrets of a pool's configs.
type Secrets struct {
	// Revisions are the published revisions by rendered config.
	Revisions map[string]string
	// Unresolved says why the pool's config has no revision yet, although it refers to secrets. Then no node is
	// assigned it. It is empty if the config has a revision or refers to no secrets.
	Unresolved string
	// Problems are the secrets of the pool's config that the server cannot resolve.
	Problems []v1alpha1.SecretProblem
	// Own are the published revisions of configs of single nodes, by the rendered config of their pool.
	Own map[string]v1alpha1.SecretsRevision
	// Unread is true if the revisions were not read.
	Unread bool
}

// revisionsOf returns the revisions of the secrets of the configs of single nodes at a revision of the pool's config;
// nil if they are not known.
func (s Secrets) revisionsOf(of v1alpha1.NodeConfigs, config, revision string) map[string]string {
	published, ok := s.Own[config]
	switch {
	case !ok || revision == "":
		return nil
	case published.Revision == revision:
		return published.Own.ByConfig(of)
	}
	was, known := published.Own.At(revision)
	if !known {
		return nil
	}
	return was.ByConfig(of)
}

// target returns a rendered config with the revision of its secrets, and the secrets. A config without a published
// revision keeps that of the record, because a server published it earlier.
func (p Published) target(config string, record v1alpha1.RolloutRecord) (target string, s Secrets) {
	s.Unread = p.Unread
	for name, r := range p.Revisions {
		if r.Own != nil {
			if s.Own == nil {
				s.Own = map[string]v1alpha1.SecretsRevision{}
			}
			s.Own[name] = r
		}
		if r.Revision == "" {
			continue
		}
		if s.Revisions == nil {
			s.Revisions = make(map[string]string, len(p.Revisions))
		}
		s.Revisions[name] = r.Revision
	}
	entry, published := p.Revisions[config]
	s.Problems = entry.Problems
	switch {
	case entry.Revision != "":
		return v1alpha1.ConfigAt(config, entry.Revision), s
	case record.Config == config && record.Secrets != "":
		return record.Target(), s
	case config == "", !published && (p.Refers == nil || !p.Refers(config)):
		return config, s
	}
	s.Unresolved = unresolvedText(config, entry, published)
	return config, s
}

// AtReturn returns a config to which a pool returns, with the revision of its secrets that nodes can get. If only the
// secrets of the pool's config changed, the nodes have their earlier revision. Otherwise it is the published revision,
// because the server has no earlier one.
func (s Secrets) AtReturn(back, target string) string {
	config := v1alpha1.ConfigName(back)
	if revision := s.Revisions[config]; revision != "" && (config == back || config != v1alpha1.ConfigName(target)) {
		return v1alpha1.ConfigAt(config, revision)
	}
	return back
}

// mostProblems is how many problems of secrets a message names.
const mostProblems = 3

// unresolvedText says why a config has no revision of its secrets.
func unresolvedText(config string, entry v1alpha1.SecretsRevision, published bool) string {
	switch {
	case !published:
		return fmt.Sprintf("%s refers to secrets, and no machine-config-server has published their revision in "+
			"ConfigMap %s/%s yet", config, v1alpha1.ServerNamespace, v1alpha1.SecretsConfigMap)
	case len(entry.Problems) == 0:
		return fmt.Sprintf("the machine-config-server has not resolved the secrets of %s yet", config)
	}
	return fmt.Sprintf("the machine-config-server cannot resolve the secrets of %s: %s", config,
		ProblemsText(entry.Problems))
}

// ProblemsText names the first problems of secrets.
func ProblemsText(problems []v1alpha1.SecretProblem) string {
	var texts []string
	for _, p := range problems[:min(len(problems), mostProblems)] {
		texts = append(texts, ProblemText(p))
	}
	slices.Sort(texts)
	if more := len(problems) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// ProblemText returns a problem with the file and the reference that it is about.
func ProblemText(p v1alpha1.SecretProblem) string {
	about := p.Reference
	if about == "" {
		about = "encrypted file"
	}
	if p.Path != "" {
		about += " of " + p.Path
	}
	if p.Node != "" {
		about += " on node " + p.Node
	}
	return fmt.Sprintf("%s: %s (%s)", about, p.Message, p.Reason)
}
