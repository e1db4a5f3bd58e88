package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Requester says who requested a rendered config: a commit, users who changed objects through the API, or both.
type Requester struct {
	// Cause is what happened; empty if the controller does not know it.
	Cause RolloutCause `json:"cause,omitempty"`
	// By is who holds the pool and why, for a Cause of RolloutCauseHold, and who requested the retry or released the
	// pool, for RolloutCauseRetry and RolloutCauseRelease; empty if that is not known.
	By string `json:"by,omitempty"`
	// Revision is the commit's, `main@sha1:<hex>`. If only changes through the API requested the config, it is the one
	// that was in force at that time. Empty if the controller knew none.
	Revision string `json:"revision,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Author   string `json:"author,omitempty"`
	// API lists the changes through the API that are in the config and were not in the pool's last healthy config,
	// newest first. Empty if only a commit requested the config.
	API []APIChange `json:"api,omitempty"`
	// AlsoCommit is true if API is not empty and the commit of Revision changed MachineConfigs of the pool too.
	AlsoCommit bool `json:"alsoCommit,omitempty"`
	// After lists the changes through the API that reverted earlier changes through the API, so that the pool returned
	// to an earlier config.
	After []APIChange `json:"after,omitempty"`
	// Unproven is the commit that was in force when only changes through the API requested the config, if the whole
	// pool was never healthy with that commit. A node that fails may then fail because of the commit or because of a
	// change. Otherwise nil.
	Unproven *CommitRef `json:"unproven,omitempty"`
}

// RolloutCause is what gave a pool its target.
type RolloutCause string

// Values of RolloutCause.
const (
	// RolloutCausePush means that a commit brought the config.
	RolloutCausePush RolloutCause = "Push"
	// RolloutCauseRevert means that a commit brought back a config of one of the pool's recorded rollouts.
	RolloutCauseRevert RolloutCause = "Revert"
	// RolloutCauseForcePush means that the commit does not descend from the one before it.
	RolloutCauseForcePush RolloutCause = "ForcePush"
	// RolloutCauseHold means that a user holds the pool at the config of an earlier commit.
	RolloutCauseHold RolloutCause = "Hold"
	// RolloutCauseRelease means that a hold ended.
	RolloutCauseRelease RolloutCause = "Release"
	// RolloutCauseAPI means that users changed objects through the API, or that such a change was reverted.
	RolloutCauseAPI RolloutCause = "API"
	// RolloutCauseSecrets means that the same config has new values of secrets.
	RolloutCauseSecrets RolloutCause = "Secrets"
	// RolloutCauseRetry means that a user requested another try after a halt or a revert.
	RolloutCauseRetry RolloutCause = "Retry"
	// RolloutCauseRecovery means that the nodes that had failed the config became healthy with it after a halt.
	RolloutCauseRecovery RolloutCause = "Recovery"
)

// CommitRef names one commit for users.
type CommitRef struct {
	// Revision of the commit, `main@sha1:<hex>`.
	Revision string `json:"revision,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Author   string `json:"author,omitempty"`
}

// ByAPI reports whether only changes through the API, and no commit, requested the config.
func (r Requester) ByAPI() bool { return len(r.API) > 0 && !r.AlsoCommit }

// APIText names the changes through the API for users; "" if there are none.
func (r Requester) APIText() string { return changesText(r.API, "; ", APIChange.String) }

// AfterText returns a text such as ` after MachineConfig 99-by-hand was deleted through the API`; "" if no change
// reverted another one.
func (r Requester) AfterText() string {
	if len(r.After) == 0 {
		return ""
	}
	return " after " + changesText(r.After, " and ", func(c APIChange) string {
		return c.Kind + " " + c.Name + " was " + c.Action.verb() + " through the API"
	})
}

// Text names all requesters of the config: the changes through the API first, then the commit in the form of the
// function write.
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

// changesText joins the first changes in the form of the function write.
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

// mostChangesShown is how many changes through the API a text names.
const (
	mostChangesShown = 3
	// MaxAPIChanges is how many changes through the API are recorded for one rendered config.
	MaxAPIChanges = 10
)

// APIChange is one object that a user changed through the API and that affects a pool's rendered config.
type APIChange struct {
	// Kind of the object: MachineConfig, or MachineConfigPool if a user changed the pool's selector.
	Kind   string    `json:"kind"`
	Name   string    `json:"name"`
	Action APIAction `json:"action"`
	// Manager is the field manager of the change, such as kubectl-client-side-apply; empty if unknown.
	Manager string `json:"manager,omitempty"`
	// At is when the user changed the object. For a deleted object, it is when the controller found that the object was
	// missing.
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

// verb returns the action as a participle.
func (a APIAction) verb() string {
	return map[APIAction]string{APICreated: "made", APIChanged: "changed", APIDeleted: "deleted"}[a]
}

// String describes the change, such as `MachineConfig 99-by-hand, made through the API (kubectl-client-side-apply) at
// 14:03 UTC`.
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

// ConfigRequest says who requested one rendered config. RequestAnnotation has it as JSON.
type ConfigRequest struct {
	Requester `json:",inline"`
	Config    string `json:"config"`
}

// ParseConfigRequest reads RequestAnnotation. If the annotation is about another config or cannot be read, the
// requester is unknown, and it returns the zero Requester.
func ParseConfigRequest(text, config string) Requester {
	var r ConfigRequest
	if json.Unmarshal([]byte(text), &r) != nil || r.Config != config {
		return Requester{}
	}
	return r.Requester
}

// String returns the value of RequestAnnotation.
func (r ConfigRequest) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // it consists of texts and times, which always marshal
	}
	return string(text)
}

// PoolTarget records the controller's last rendering of a pool: who requested the rendered config, and its inputs.
// TargetAnnotation on the pool has it as JSON. Writer: the controller.
type PoolTarget struct {
	Requester `json:",inline"`
	Config    string `json:"config"`
	// Nodes is how many nodes have configs of their own of Config. Users read it who may not read MachineConfigs.
	Nodes int `json:"nodes,omitempty"`
	// Held is true if the pool has Config because a user holds it there.
	Held bool `json:"held,omitempty"`
	// Before is the rendered config of Revision without changes through the API. Empty unless only such changes
	// requested Config.
	Before string `json:"before,omitempty"`
	// Commit is the last commit that requested a config of the pool, if only changes through the API requested Config.
	// Otherwise the commit is in Requester, and Commit is zero.
	Commit Requester `json:"commit,omitzero"`
	// InForce lists the changes through the API since the last config that only a commit requested, newest first.
	InForce []ChangeInForce `json:"inForce,omitempty"`
	// Inputs lists the MachineConfigs in Config that no existing GitSource owns; nil if there are more than
	// MaxTargetInputs.
	Inputs []TargetInput `json:"inputs,omitempty"`
	// Sources maps each existing GitSource to its part of Config.
	Sources map[string]TargetSource `json:"sources,omitempty"`
	// Gone maps each deleted GitSource that still owns MachineConfigs to their digest, as in TargetSource.Inputs.
	Gone map[string]string `json:"gone,omitempty"`
}

// ChangeInForce is a change through the API that is part of a pool's config.
type ChangeInForce struct {
	APIChange `json:",inline"`
	// Was identifies the object's state before the change: for a MachineConfig its digest, empty if the object did not
	// exist; for a MachineConfigPool the pool's rendered config.
	Was string `json:"was,omitempty"`
	// Healthy is true if the whole pool was healthy with a config that contains the change.
	Healthy bool `json:"healthy,omitempty"`
}

// MaxTargetInputs limits the MachineConfigs from outside of git in a pool's record, because all annotations of an
// object share 256 KiB.
const MaxTargetInputs = 300

// TargetSource is the part of a pool's config from one GitSource.
type TargetSource struct {
	// Revision that was applied.
	Revision string `json:"revision,omitempty"`
	// Inputs is the digest of the names and contents of the GitSource's MachineConfigs in the pool's config; empty if
	// there are none.
	Inputs string `json:"inputs,omitempty"`
}

// TargetInput is one MachineConfig of a pool's rendered config.
type TargetInput struct {
	// Name of the MachineConfig.
	Name string `json:"name"`
	// Digest is the beginning of the digest of the MachineConfig's content.
	Digest string `json:"digest"`
	// Source is the GitSource that owns the MachineConfig; empty if a user created it through the API.
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

// String returns the value of TargetAnnotation.
func (t PoolTarget) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		return "" // it consists of texts and times, which always marshal
	}
	return string(text)
}

// RequesterOf returns who requested a pool's rendered config last, from the newest record of that config in the pool's
// annotations. It returns the zero Requester if there is no record.
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
