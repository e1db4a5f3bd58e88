package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failure says in structured form why a node's daemon reports Degraded or Unreconcilable. FailureAnnotation on the Node has it as
// JSON beside ReasonAnnotation, which has the words. Writer: the daemon. A daemon that does not know the annotation leaves it out.
type Failure struct {
	// Config that the node failed.
	Config string `json:"config"`
	// Cause of the failure.
	Cause FailureCause `json:"cause"`
	// Path on the node that the failure is about; empty where it is about none.
	Path string `json:"path,omitempty"`
	// Since is when the daemon first reported it.
	Since metav1.Time `json:"since"`
	// Retry is the value of RetryAnnotation on the Node when the last attempt began: the failure is the answer to that request.
	// Absent where no one requested a retry.
	Retry *metav1.Time `json:"retry,omitempty"`
}

// FailureCause is why a node failed, as a stable word.
type FailureCause string

// Values of FailureCause.
const (
	// FailureRefused: a running node cannot take the config, and nothing of it was applied.
	FailureRefused FailureCause = "Refused"
	// FailureDiskFull: a file system of the node has no space left. The daemon tries again by itself.
	FailureDiskFull FailureCause = "DiskFull"
	// FailureDrift: the node was changed manually, so that it is not as its config says.
	FailureDrift FailureCause = "Drift"
	// FailureNoConfig: the desired config is not on the cluster.
	FailureNoConfig FailureCause = "NoConfig"
	// FailureRejected: the node applied the config, was not healthy with it, and went back.
	FailureRejected FailureCause = "Rejected"
	// FailureApply: a step of the update failed.
	FailureApply FailureCause = "Apply"
	// FailureUnsafePath: while the daemon changed a path, a user of the node led it to files of another owner, and the daemon did not
	// follow.
	FailureUnsafePath FailureCause = "UnsafePath"
	// FailureLost: the node was not Ready for longer than the policy's nodeDeadline. The controller says so, never a daemon.
	FailureLost FailureCause = "Lost"
)

// FailedNode is a node that failed a rollout's config.
type FailedNode struct {
	// Node by name.
	Node string `json:"node"`
	// Cause as the node's daemon reported it; empty where it did not.
	Cause FailureCause `json:"cause,omitempty"`
	// Why in words.
	Why string `json:"why,omitempty"`
}

// ParseFailure reads FailureAnnotation; an empty text is the zero Failure.
func ParseFailure(text string) (Failure, error) {
	var f Failure
	if text == "" {
		return f, nil
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return Failure{}, fmt.Errorf("reading annotation %s: %w", FailureAnnotation, err)
	}
	return f, nil
}

// String is the failure as the annotation spells it; empty for the zero Failure.
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
