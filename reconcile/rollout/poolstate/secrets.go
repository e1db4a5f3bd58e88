package poolstate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Published is what the cluster says about the secrets of rendered configs; zero for a cluster without secrets.
type Published struct {
	// of v1alpha1.SecretsConfigMap, by rendered config
	Revisions map[string]v1alpha1.SecretsRevision
	// reports whether a rendered config refers to secrets; nil if none does. It matters only for configs without an
	// entry: the server may not have published one yet.
	Refers func(config string) bool
	// A user may not read the revisions.
	Unread bool
}

// Secrets are the secrets of a pool's configs.
type Secrets struct {
	// the published ones, by rendered config
	Revisions map[string]string
	// why the pool's config has no revision yet, although it refers to secrets, so that no node is assigned it;
	// otherwise empty
	Unresolved string
	// the secrets of the pool's config that the server cannot resolve
	Problems []v1alpha1.SecretProblem
	// of configs of single nodes, by the config of their pool
	Own map[string]v1alpha1.SecretsRevision
	// The revisions were not read.
	Unread bool
}

// revisionsOf returns the revisions of the secrets of the configs of single nodes at a revision of the pool's config;
// nil if unknown.
func (s Secrets) revisionsOf(of v1alpha1.NodeConfigs, config v1alpha1.ConfigVersion) map[string]string {
	published, ok := s.Own[config.Config]
	switch {
	case !ok || config.Secrets == "":
		return nil
	case published.Revision == config.Secrets:
		return published.Own.ByConfig(of)
	}
	was, known := published.Own.At(config.Secrets)
	if !known {
		return nil
	}
	return was.ByConfig(of)
}

// target returns a rendered config with the revision of its secrets. Without a published one, that of the record stays,
// because a server published it earlier.
func (p Published) target(config string, record v1alpha1.RolloutRecord) (target v1alpha1.ConfigVersion,
	s Secrets,
) {
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
		return v1alpha1.NewConfigVersion(config, entry.Revision), s
	case record.Config == config && record.Secrets != "":
		return record.Target(), s
	case config == "", !published && (p.Refers == nil || !p.Refers(config)):
	default:
		s.Unresolved = unresolvedText(config, entry, published)
	}
	return v1alpha1.ConfigVersion{Config: config}, s
}

// AtReturn returns a config to which a pool returns, with a revision of its secrets that nodes can get. If only the
// secrets of the pool's config changed, that is the earlier one, which the nodes have. Otherwise it is the published
// one, because the server has no earlier one.
func (s Secrets) AtReturn(back, target v1alpha1.ConfigVersion) v1alpha1.ConfigVersion {
	if revision := s.Revisions[back.Config]; revision != "" && (back.Secrets == "" || back.Config != target.Config) {
		back.Secrets = revision
	}
	return back
}

// mostProblems is for a message about secrets.
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
