package v1alpha1

import (
	"maps"
	"slices"
)

// MaxEarlierSecrets is how many earlier revisions an OwnSecrets has, besides those that the record of the pool names.
const MaxEarlierSecrets = 10

// OwnSecrets are the revisions of the secrets of the configs of single nodes, and of their base. Configs that refer to
// the same secrets have the same revision, and a config without secrets has none.
//
// +kubebuilder:object:generate=false
type OwnSecrets struct {
	// Base is the revision of NodeConfigs.Base.
	Base string `json:"base,omitempty"`
	// Rest is the revision of all configs that Sets does not list.
	Rest string `json:"rest,omitempty"`
	// Sets are configs that refer to the same secrets.
	Sets []SecretSet `json:"sets,omitempty"`
	// Earlier are the revisions of earlier values, the newest last. The rollout needs them for nodes that still have
	// these values, and to return to them.
	Earlier []EarlierSecrets `json:"earlier,omitempty"`
}

// SecretSet are configs of single nodes that refer to the same secrets.
//
// +kubebuilder:object:generate=false
type SecretSet struct {
	// Revision of the secrets; empty if they are none.
	Revision string `json:"revision,omitempty"`
	// Configs are the hashes in the names of the configs, sorted. The first one identifies the set.
	Configs []string `json:"configs"`
}

// EarlierSecrets are what the revisions were at an earlier revision of the pool's config.
//
// +kubebuilder:object:generate=false
type EarlierSecrets struct {
	// Revision is that of SecretsRevision.
	Revision string `json:"revision"`
	// Base and Rest are those of OwnSecrets.
	Base string `json:"base,omitempty"`
	Rest string `json:"rest,omitempty"`
	// Sets has the revisions of those sets that differ now, by the first hash of their configs.
	Sets map[string]string `json:"sets,omitempty"`
}

// At returns what the revisions were at an earlier revision of the pool's config, and whether that is known.
func (o OwnSecrets) At(revision string) (OwnSecrets, bool) {
	for _, e := range slices.Backward(o.Earlier) {
		if e.Revision != revision {
			continue
		}
		out := OwnSecrets{Base: e.Base, Rest: e.Rest, Sets: slices.Clone(o.Sets)}
		for i, s := range out.Sets {
			if was, differs := e.Sets[s.id()]; differs {
				out.Sets[i].Revision = was
			}
		}
		return out, true
	}
	return OwnSecrets{}, false
}

// Before returns the revisions as EarlierSecrets of o.
func (o OwnSecrets) Before(was OwnSecrets, revision string) EarlierSecrets {
	e, had := EarlierSecrets{Revision: revision, Base: was.Base, Rest: was.Rest}, map[string]string{}
	for _, s := range was.Sets {
		had[s.id()] = s.Revision
	}
	for _, s := range o.Sets {
		if was, known := had[s.id()]; known && was != s.Revision {
			if e.Sets == nil {
				e.Sets = map[string]string{}
			}
			e.Sets[s.id()] = was
		}
	}
	return e
}

// ByConfig returns the revision of the secrets of each config by its name. The parameter of has the configs.
func (o OwnSecrets) ByConfig(of NodeConfigs) map[string]string {
	prefix := "rendered-" + RenderedPool(of.Base) + "-"
	out := make(map[string]string, len(of.Nodes)+1)
	for _, hash := range of.Nodes {
		out[prefix+hash] = o.Rest
	}
	for _, s := range o.Sets {
		for _, hash := range s.Configs {
			out[prefix+hash] = s.Revision
		}
	}
	out[of.Base] = o.Base
	maps.DeleteFunc(out, func(_, revision string) bool { return revision == "" })
	return out
}

// id returns the hash that identifies the set; empty in a ConfigMap that a user changed.
func (s SecretSet) id() string {
	if len(s.Configs) == 0 {
		return ""
	}
	return s.Configs[0]
}
