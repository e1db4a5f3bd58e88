package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failure is why a node's daemon reports Degraded or Unreconcilable, as data. FailureAnnotation on the Node has it as
// JSON. ReasonAnnotation has the text for users. Writer: the daemon. Earlier daemons do not write the annotation.
type Failure struct {
	// Config is the config that the node failed.
	Config string `json:"config"`
	// Secrets is the revision of the secrets with which the node failed the config; empty if the config refers to none.
	Secrets string       `json:"secrets,omitempty"`
	Cause   FailureCause `json:"cause"`
	// Phase is where the failure left the update: the daemon's phase, such as Blocked (nothing has changed), Draining
	// or RolledBack. Earlier daemons do not write it.
	Phase string `json:"phase,omitempty"`
	// Path is the path on the node that caused the failure; empty if there is none.
	Path string `json:"path,omitempty"`
	// Problem is what is wrong: the text of ReasonAnnotation without the config, its commit and the advice. If that
	// text has none of these, it is empty, and ReasonAnnotation has the problem.
	Problem string `json:"problem,omitempty"`
	// Since is when the daemon first reported the failure.
	Since metav1.Time `json:"since"`
	// Retry is the value of RetryAnnotation on the Node when the last attempt began: the failure is the answer to that
	// request. Absent if no user requested a retry.
	Retry *metav1.Time `json:"retry,omitempty"`
}

// Version returns Config and its secrets.
func (f Failure) Version() ConfigVersion { return NewConfigVersion(f.Config, f.Secrets) }

// FailureCause is why a node failed. The values are stable.
type FailureCause string

// Values of FailureCause.
const (
	// FailureRefused means that a running node cannot change a part of the config. The daemon applied nothing of it.
	FailureRefused FailureCause = "Refused"
	// FailureHost means that something on the machine refuses the config, which another machine may take: a mask of a
	// unit that the config starts, an immutable file, or a directory in which several users can write. The daemon
	// applied nothing of it, and looks again every minute.
	FailureHost FailureCause = "Host"
	// FailureDiskFull means that a file system of the node has no space left. The daemon tries again.
	FailureDiskFull FailureCause = "DiskFull"
	// FailureDrift means that the node differs from its config, for example after a manual change.
	FailureDrift FailureCause = "Drift"
	// FailureNoConfig means that the desired config is not on the cluster.
	FailureNoConfig FailureCause = "NoConfig"
	// FailureNoAccess means that neither the machine-config-server nor the API server sent the node its config for
	// several minutes. The daemon tries again.
	FailureNoAccess FailureCause = "NoAccess"
	// FailureRejected means that the node applied the config, was not healthy with it, and rolled back.
	FailureRejected FailureCause = "Rejected"
	// FailureBlocked means that the update cannot begin, for example because a unit of the config has a wrong [Install]
	// section. The daemon changed nothing, and tries again.
	FailureBlocked FailureCause = "Blocked"
	// FailureDrain means that pods of the node have not ended for an hour. The update continues when they have.
	FailureDrain FailureCause = "Drain"
	// FailureUncordon means that the node has the config, and that the controller does not uncordon it.
	FailureUncordon FailureCause = "Uncordon"
	// FailureApply means that a step of the update failed.
	FailureApply FailureCause = "Apply"
	// FailureUnsafePath means that a user of the node led a path to files of another owner, and the daemon did not
	// follow it.
	FailureUnsafePath FailureCause = "UnsafePath"
	// FailureLost means that the node was not Ready for longer than the policy's nodeDeadline. Only the controller uses
	// it.
	FailureLost FailureCause = "Lost"
)

// FailedNode is a node that failed a rollout's config.
type FailedNode struct {
	Node string `json:"node"`
	// Cause is the cause that the node's daemon reported; empty if it reported none.
	Cause FailureCause `json:"cause,omitempty"`
	// Why is the reason, for users.
	Why string `json:"why,omitempty"`
}

// ParseFailure reads FailureAnnotation. An empty text is the zero Failure.
func ParseFailure(text string) (Failure, error) {
	var f Failure
	if text == "" {
		return f, nil
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return Failure{}, fmt.Errorf("reading annotation %s: %w", FailureAnnotation, err)
	}
	f.Problem, f.Path = TruncateReason(f.Problem), TruncateReason(f.Path)
	return f, nil
}

// String returns the value of FailureAnnotation. It is empty for the zero Failure.
func (f Failure) String() string {
	if f.Cause == "" {
		return ""
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return "" // it consists of texts and times, which always marshal
	}
	return string(raw)
}
