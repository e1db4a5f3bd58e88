package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Drift is the value of DriftAnnotation, as compact JSON of at most MaxDrift bytes. It never contains contents, nor
// digests of secret contents: an attacker could test guesses against a digest.
type Drift struct {
	// Config is the config in force on the node.
	Config string `json:"config"`
	// Items are in the order of their names, those of one path together.
	Items []DriftItem `json:"items"`
	// More is the number of items that the report omits, because it would become too long.
	More int `json:"more,omitempty"`
}

// MaxDrift is the largest size of a report on a Node, in bytes.
const MaxDrift = 16 << 10

// ParseDrift reads DriftAnnotation. An empty text is the zero Drift. A text that the daemon does not write is an error:
// one that is too long, or an item of an unknown kind or action.
func ParseDrift(text string) (Drift, error) {
	var d Drift
	switch {
	case text == "":
		return d, nil
	case len(text) > MaxDrift:
		return d, fmt.Errorf("reading annotation %s: it has %d bytes, and a daemon writes at most %d", DriftAnnotation,
			len(text), MaxDrift)
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return Drift{}, fmt.Errorf("reading annotation %s: %w", DriftAnnotation, err)
	}
	for _, it := range d.Items {
		if !slices.Contains(driftKinds, it.Kind) || !slices.Contains(driftActions, it.Action) {
			return Drift{}, fmt.Errorf("reading annotation %s: an item has kind %.20q and action %.20q, which no "+
				"daemon of this version writes", DriftAnnotation, it.Kind, it.Action)
		}
	}
	return d, nil
}

// ByHand says in a sentence without advice what somebody changed on the node, of the items that degrade it. It is empty
// if more is to be said: the report omits items, the kind of one does not tell how it differs, or one needs advice of
// its own.
func (d Drift) ByHand() string {
	const mostNamed = 3
	var names []string
	how := ""
	for _, it := range d.Items {
		if it.Action != DriftDegrade {
			continue
		}
		switch it.Kind {
		case DriftContent, DriftMode, DriftOwner, DriftTarget, DriftMissing:
		default:
			return ""
		}
		if it.Why != "" {
			return ""
		}
		names, how = append(names, it.Name), string(it.Kind)
		if it.Modified != nil && it.Kind == DriftContent {
			how += ", modified " + it.Modified.UTC().Format("2006-01-02 15:04:05 UTC")
		}
	}
	const unknown = "by whom is not recorded"
	switch {
	case len(names) == 0 || d.More > 0:
		return ""
	case len(names) > 1:
		text := strings.Join(names[:min(len(names), mostNamed)], ", ")
		if more := len(names) - mostNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return text + " were changed by hand (" + unknown + ")"
	case how == string(DriftMissing):
		return names[0] + " was removed by hand (" + unknown + ")"
	}
	return fmt.Sprintf("%s was changed by hand (%s; %s)", names[0], how, unknown)
}

var (
	driftKinds = []DriftKind{
		DriftMissing, DriftType, DriftContent, DriftTarget, DriftMode, DriftOwner, DriftEnablement, DriftAccount,
		DriftOS,
	}
	driftActions = []DriftAction{DriftDegrade, DriftRepair, DriftReport, DriftIgnore}
)

// DriftItem is one difference between the node and the config in force.
type DriftItem struct {
	// Name is a path, a unit's name, or a name as in a DriftRule: user/core, group/wheel, os/kernelArguments.
	Name string `json:"name"`
	// Kind is what differs: content, mode, owner, target, type (file, dir, link), missing, enablement, account, os.
	Kind DriftKind `json:"kind"`
	// Action is what the daemon did. If a repair is not possible, it is Degrade.
	Action DriftAction `json:"action"`
	// Since is when the daemon first found the difference.
	Since metav1.Time `json:"since"`
	// Why is, for users, why the action differs from the rule's, or what differs. It never has contents.
	Why string `json:"why,omitempty"`
	// Expected is the entry of the config, Actual the entry on the node.
	Expected *DriftEntry `json:"expected,omitempty"`
	Actual   *DriftEntry `json:"actual,omitempty"`
	// Modified is the modification time of the file on the node.
	Modified *metav1.Time `json:"modified,omitempty"`
	// Secret is true for secret contents. They have neither digests here nor a diff on the node.
	Secret bool `json:"secret,omitempty"`
}

// DriftKind is what differs. If several kinds apply, it is the first in the order of the constants.
type DriftKind string

// Kinds of drift.
const (
	// DriftMissing means that nothing exists at the path.
	DriftMissing DriftKind = "missing"
	// DriftType means that something of another type exists, or something that should not exist.
	DriftType    DriftKind = "type"
	DriftContent DriftKind = "content"
	// DriftTarget means that a link has another target.
	DriftTarget DriftKind = "target"
	DriftMode   DriftKind = "mode"
	DriftOwner  DriftKind = "owner"
	// DriftEnablement means that a unit is enabled and should not be, or the other way round.
	DriftEnablement DriftKind = "enablement"
	// DriftAccount means that an account, a user or a group, differs.
	DriftAccount DriftKind = "account"
	// DriftOS means that the image or the kernel arguments differ.
	DriftOS DriftKind = "os"
)

// DriftEntry is one side of a path, or of a unit's enablement.
type DriftEntry struct {
	// Type is file, dir, link or other; empty if nothing exists. For a unit's enablement it is enabled, disabled or
	// masked.
	Type string `json:"type,omitempty"`
	// Digest is the SHA-256 of a file's contents in hexadecimal; empty for secret contents.
	Digest string `json:"digest,omitempty"`
	// Mode is four octal digits; empty for links.
	Mode string `json:"mode,omitempty"`
	// Owner is uid:gid.
	Owner string `json:"owner,omitempty"`
	// Target of a link.
	Target string `json:"target,omitempty"`
}

// DriftExport is one path of a node with its contents, for a repository. Only a user who may read root's files on the
// node can get it. The cluster never stores it.
type DriftExport struct {
	Path string `json:"path"`
	// Config is the config in force, from which the path differs.
	Config string `json:"config"`
	// Type is file, link or dir.
	Type string `json:"type"`
	// Mode is the permission bits; nil for links.
	Mode *int32 `json:"mode,omitempty"`
	UID  int64  `json:"uid,omitempty"`
	GID  int64  `json:"gid,omitempty"`
	// Target of a link.
	Target   string `json:"target,omitempty"`
	Contents []byte `json:"contents,omitempty"`
	// Secret is true if the contents do not belong into a repository.
	Secret bool `json:"secret,omitempty"`
}
