package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// Secrets are the published revisions of secrets.
type Secrets struct {
	// Revisions are the entries of v1alpha1.SecretsConfigMap by rendered config.
	Revisions map[string]v1alpha1.SecretsRevision
	// Note says why the revisions were not read, or is empty.
	Note string
}

// ConfigSecrets says what is known about the secrets of a rendered config, without the values.
type ConfigSecrets struct {
	// Changes are the last change of each object to which the config refers, the newest last.
	Changes []v1alpha1.SecretChange `json:"changes,omitempty"`
	// Problems are the secrets that the server cannot resolve. If Kept is true, nodes keep the values from before.
	Problems []v1alpha1.SecretProblem `json:"problems,omitempty"`
	Kept     bool                     `json:"kept,omitempty"`
	// Note says why Changes and Problems were not read, or is empty.
	Note string `json:"note,omitempty"`
}

// waitsForSecrets reports whether the controller says that a pool waits for the secrets of its config.
func (v *Pool) waitsForSecrets() bool {
	blocked := v.Condition(v1alpha1.RolloutBlockedCondition)
	return blocked.Status == corev1.ConditionTrue && blocked.Reason == string(poolstate.CauseSecrets)
}

// TargetConfig returns the rendered config that the pool should run, without the revision of its secrets.
func (v *Pool) TargetConfig() string { return v.Facts.Target.Config }

// SecretsOf returns what is known about the secrets of a config; nil if it refers to none.
func (f *Fleet) SecretsOf(config v1alpha1.ConfigVersion) *ConfigSecrets {
	name := config.Config
	v := f.PoolByName[v1alpha1.RenderedPool(name)]
	return f.Secrets.Of(name, config.Secrets != "" || v != nil && name != "" && v.TargetConfig() == name &&
		v.waitsForSecrets())
}

// Of returns what is known about the secrets of a config; nil if nothing is published and it refers to none.
func (s Secrets) Of(config string, refers bool) *ConfigSecrets {
	if entry, published := s.entryOf(config); published && (refers || entry.Own == nil) {
		return &ConfigSecrets{Changes: entry.Changes, Problems: entry.Problems, Kept: entry.Revision != "" &&
			len(entry.Problems) > 0}
	}
	if s.Note == "" || !refers {
		return nil
	}
	return &ConfigSecrets{Note: s.Note}
}

// entryOf returns what is published about a rendered config. That of single nodes has the entry of its pool's config,
// which has the changes of the secrets of all nodes.
func (s Secrets) entryOf(config string) (v1alpha1.SecretsRevision, bool) {
	if entry, published := s.Revisions[config]; published {
		return entry, true
	}
	for _, name := range slices.Sorted(maps.Keys(s.Revisions)) {
		if entry := s.Revisions[name]; entry.Own != nil && v1alpha1.RenderedPool(name) == v1alpha1.RenderedPool(
			config) && config != "" {
			return entry, true
		}
	}
	return v1alpha1.SecretsRevision{}, false
}

// About returns the part about objects of the form secret:NAME.
func (s *ConfigSecrets) About(objects map[string]bool) *ConfigSecrets {
	if s == nil {
		return nil
	}
	out := *s
	out.Changes = slices.DeleteFunc(slices.Clone(s.Changes), func(c v1alpha1.SecretChange) bool {
		return !objects[c.Object]
	})
	return &out
}

const mostSecretChanges = 5

// Texts returns the changes of secrets as lines, newest first, or the reason why there are none.
func (s *ConfigSecrets) Texts() []string {
	if s == nil {
		return nil
	}
	if s.Note != "" {
		return []string{s.Note}
	}
	var out []string
	for _, c := range slices.Backward(s.Changes) {
		if len(out) == mostSecretChanges {
			return append(out, fmt.Sprintf("and %d more", len(s.Changes)-len(out)))
		}
		out = append(out, ChangeText(c))
	}
	return out
}

// ProblemTexts returns the secrets that the server cannot resolve, each as a line.
func (s *ConfigSecrets) ProblemTexts() []string {
	var out []string
	if s != nil {
		for _, p := range s.Problems {
			out = append(out, poolstate.ProblemText(p))
		}
	}
	return out
}

// ChangeText returns when an object with secrets changed, and by which field manager.
func ChangeText(c v1alpha1.SecretChange) string {
	text := ObjectText(c.Object) + " changed at " + c.Time.UTC().Format(time.RFC3339)
	if c.Manager != "" {
		text += " by " + c.Manager
	}
	return text
}

// ObjectText returns an object of a SecretChange as kubectl writes it: `secret bunsen-secrets/NAME`.
func ObjectText(object string) string {
	kind, name, _ := strings.Cut(object, ":")
	return kind + " " + v1alpha1.SecretsNamespace + "/" + name
}

// EarlierRollout returns when the pool's rollout before the current one began; the zero time if it is not recorded.
func (v *Pool) EarlierRollout() time.Time {
	past, err := v1alpha1.EarlierRollouts(v.Object.Annotations)
	if err != nil || len(past) == 0 {
		return time.Time{}
	}
	return past[0].Began.Time
}

// SecretsChangedIn returns the changes of a config's secrets between two times, newest first; zero is no limit. Times
// have whole seconds, so a change in the second in which an earlier rollout began counts.
func (f *Fleet) SecretsChangedIn(config string, after, until time.Time) []v1alpha1.SecretChange {
	var out []v1alpha1.SecretChange
	for _, c := range slices.Backward(f.Secrets.Revisions[config].Changes) {
		if !c.Time.Before(after) && (until.IsZero() || !c.Time.After(until)) {
			out = append(out, c)
		}
	}
	return out
}
