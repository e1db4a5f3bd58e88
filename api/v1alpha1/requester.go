package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Requester is who asked for a rendered config: a commit, users who changed objects through the API, or both.
type Requester struct {
	// Revision of the commit, `main@sha1:<hex>`. Where only API asked, it is the revision that was applied at that time; empty
	// where the controller did not know one.
	Revision string `json:"revision,omitempty"`
	// Subject and Author of the commit.
	Subject string `json:"subject,omitempty"`
	Author  string `json:"author,omitempty"`
	// API are the changes through the API that the config has and that the pool's last healthy config did not have, the newest
	// first; empty where a commit alone asked.
	API []APIChange `json:"api,omitempty"`
	// AlsoCommit: the commit of Revision changed MachineConfigs of the pool, at the same time as API or after it.
	AlsoCommit bool `json:"alsoCommit,omitempty"`
	// After are the changes through the API that took back earlier ones, so that the pool returned to what was there before.
	After []APIChange `json:"after,omitempty"`
	// Unproven is the commit that API came on, where no commit asked and the pool was not healthy with that commit before: nodes may
	// fail because of either. nil where the pool was healthy with the commit, or no commit is known.
	Unproven *CommitRef `json:"unproven,omitempty"`
}

// CommitRef names one commit for people.
type CommitRef struct {
	// Revision of the commit, `main@sha1:<hex>`.
	Revision string `json:"revision,omitempty"`
	// Subject and Author of the commit; empty where they are not known.
	Subject string `json:"subject,omitempty"`
	Author  string `json:"author,omitempty"`
}

// ByAPI reports whether only changes through the API asked, and no commit.
func (r Requester) ByAPI() bool { return len(r.API) > 0 && !r.AlsoCommit }

// APIText names the changes through the API for people; empty where there are none.
func (r Requester) APIText() string { return changesText(r.API, "; ", APIChange.String) }

// AfterText is ` after MachineConfig 99-by-hand was deleted through the API`; empty where no change took back another.
func (r Requester) AfterText() string {
	if len(r.After) == 0 {
		return ""
	}
	return " after " + changesText(r.After, " and ", func(c APIChange) string {
		return c.Kind + " " + c.Name + " was " + c.Action.verb() + " through the API"
	})
}

// Text names all that asked for the config: the changes through the API first, then the commit as write names it.
func (r Requester) Text(write func(CommitRef) string) string {
	commit := ""
	if r.Revision != "" {
		commit = write(CommitRef{Revision: r.Revision, Subject: r.Subject, Author: r.Author})
	}
	switch {
	case len(r.API) == 0:
		return commit + r.AfterText()
	case !r.ByAPI() && commit != "":
		return r.APIText() + "; " + commit + r.AfterText()
	}
	text := r.APIText() + r.AfterText()
	if r.Unproven == nil {
		return text
	}
	if commit := write(*r.Unproven); commit != "" {
		text += "; on " + commit + ", with which the pool was not healthy"
	}
	return text
}

// changesText joins the first changes, as write has them.
func changesText(changes []APIChange, between string, write func(APIChange) string) string {
	texts := make([]string, 0, len(changes))
	for i, c := range changes {
		if i == mostChangesShown {
			texts = append(texts, fmt.Sprintf("and %d more", len(changes)-i))
			break
		}
		texts = append(texts, write(c))
	}
	return strings.Join(texts, between)
}

// mostChangesShown is how many changes through the API a text names, and MaxAPIChanges how many a Requester has.
const (
	mostChangesShown = 3
	// MaxAPIChanges is how many changes through the API are recorded for one rendered config.
	MaxAPIChanges = 10
)

// APIChange is one object that a user changed through the API and that decides what a pool is rendered to.
type APIChange struct {
	// Kind of the object: MachineConfig, or MachineConfigPool where its selector was changed.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Action is what happened to the object.
	Action APIAction `json:"action"`
	// Manager is the field manager of the change, such as kubectl-client-side-apply; empty where it is not known.
	Manager string `json:"manager,omitempty"`
	// At is when it was changed; for a deleted object, when the controller noticed.
	At metav1.Time `json:"at"`
}

// APIAction is what a user did to an object through the API.
type APIAction string

// Values of APIAction.
const (
	APICreated APIAction = "Created"
	APIChanged APIAction = "Changed"
	APIDeleted APIAction = "Deleted"
)

// verb is the action as a participle.
func (a APIAction) verb() string {
	return map[APIAction]string{APICreated: "made", APIChanged: "changed", APIDeleted: "deleted"}[a]
}

// String is the change in words, such as `MachineConfig 99-by-hand, made through the API (kubectl-client-side-apply) at 14:03 UTC`.
func (c APIChange) String() string {
	text := c.Kind + " " + c.Name + ", " + c.Action.verb() + " through the API"
	if c.Manager != "" {
		text += " (" + c.Manager + ")"
	}
	if !c.At.IsZero() {
		text += " at " + c.At.UTC().Format("2006-01-02 15:04 UTC")
	}
	return text
}

// ConfigRequest is who asked for one rendered config. It is kept as JSON in RequestAnnotation.
type ConfigRequest struct {
	Requester `json:",inline"`
	// Config is the rendered config.
	Config string `json:"config"`
}

// ParseConfigRequest reads RequestAnnotation. It returns the zero Requester where the annotation is about another config, or cannot
// be read: who asked is then unknown.
func ParseConfigRequest(text, config string) Requester {
	var r ConfigRequest
	if json.Unmarshal([]byte(text), &r) != nil || r.Config != config {
		return Requester{}
	}
	return r.Requester
}

// String is the request as the annotation spells it.
func (r ConfigRequest) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // it consists of texts and times, which always marshal
	}
	return string(text)
}

// PoolTarget is what the controller recorded when it last rendered a pool: who asked for the rendered config, and from what it was
// rendered. It is kept as JSON in TargetAnnotation on the pool. Writer: the controller.
type PoolTarget struct {
	Requester `json:",inline"`
	// Config is the rendered config.
	Config string `json:"config"`
	// Before is the config that Revision gave the pool, where only changes through the API asked for Config.
	Before string `json:"before,omitempty"`
	// Commit is the commit that asked last, where only changes through the API asked for Config; zero where it is in Requester.
	Commit Requester `json:"commit,omitzero"`
	// InForce are the changes through the API since the last config that a commit alone asked for, the newest first.
	InForce []ChangeInForce `json:"inForce,omitempty"`
	// Inputs are the MachineConfigs that it was rendered from and that no existing GitSource owns; nil where there are more
	// than MaxTargetInputs.
	Inputs []TargetInput `json:"inputs,omitempty"`
	// Sources maps each GitSource that exists to what it gave.
	Sources map[string]TargetSource `json:"sources,omitempty"`
	// Gone maps each GitSource that was deleted, and of which there are MachineConfigs, to a digest of them, as in TargetSource.Inputs.
	Gone map[string]string `json:"gone,omitempty"`
}

// ChangeInForce is a change through the API that is part of a pool's config.
type ChangeInForce struct {
	APIChange `json:",inline"`
	// Was is what there was before: the digest of a MachineConfig, empty for none; the pool's config for a MachineConfigPool.
	Was string `json:"was,omitempty"`
	// Healthy: the whole pool was healthy with a config that has the change.
	Healthy bool `json:"healthy,omitempty"`
}

// MaxTargetInputs is how many MachineConfigs from outside of git a pool's record names: all annotations of an object share
// 256 KiB.
const MaxTargetInputs = 300

// TargetSource is what one GitSource gave a pool.
type TargetSource struct {
	// Revision that was applied.
	Revision string `json:"revision,omitempty"`
	// Inputs is a digest of the names and the content of its MachineConfigs that the pool was rendered from; empty for none.
	Inputs string `json:"inputs,omitempty"`
}

// TargetInput is one MachineConfig that a pool was rendered from.
type TargetInput struct {
	// Name of the MachineConfig.
	Name string `json:"name"`
	// Digest begins the digest of its content.
	Digest string `json:"digest"`
	// Source is the GitSource that owns it; empty for one made through the API.
	Source string `json:"source,omitempty"`
}

// ParsePoolTarget reads TargetAnnotation; an empty text is the zero target.
func ParsePoolTarget(text string) (PoolTarget, error) {
	var t PoolTarget
	if text == "" {
		return t, nil
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return PoolTarget{}, fmt.Errorf("reading annotation %s: %w", TargetAnnotation, err)
	}
	return t, nil
}

// String is the target as the annotation spells it.
func (t PoolTarget) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		return "" // it consists of texts and times, which always marshal
	}
	return string(text)
}

// RequesterOf is who asked last for a rendered config of a pool, as the pool's annotations have it: of the newest record of that
// config. The zero Requester where none has it.
func RequesterOf(pool map[string]string, config string) Requester {
	if t, err := ParsePoolTarget(pool[TargetAnnotation]); err == nil && t.Config == config {
		return t.Requester
	}
	if r, err := ParseRolloutRecord(pool[RolloutAnnotation]); err == nil && r.Config == config {
		return r.Requester
	}
	past, err := ParseRolloutHistory(pool[RolloutHistoryAnnotation])
	for _, o := range past {
		if err == nil && o.Config == config {
			return o.Requester
		}
	}
	return Requester{}
}
