package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Drift is the value of DriftAnnotation, as compact JSON of at most MaxDrift bytes. It never has contents, nor
// digests of contents that are secret: somebody could try what fits.
type Drift struct {
	// Config that is in force on the node.
	Config string `json:"config"`
	// Items in the order of their names, those of one path together.
	Items []DriftItem `json:"items"`
	// More items are not listed, because the report would become too long.
	More int `json:"more,omitempty"`
}

// MaxDrift is the most bytes of a report on a Node.
const MaxDrift = 16 << 10

// DriftItem is one thing that is not as the config in force has it.
type DriftItem struct {
	// Name is a path, a unit's name, or as patterns of a DriftRule have it: user/core, group/wheel, os/kernelArguments.
	Name string `json:"name"`
	// Kind of what differs: content, mode, owner, target, type (file, dir, link), missing, enablement, account, os.
	Kind DriftKind `json:"kind"`
	// Action taken; of a repair that cannot be done it is Degrade.
	Action DriftAction `json:"action"`
	// Since when it was seen to differ.
	Since metav1.Time `json:"since"`
	// Why the action is another than the rule's, or what differs, in words; never contents.
	Why string `json:"why,omitempty"`
	// Expected is what the config wants, Actual what is there.
	Expected *DriftEntry `json:"expected,omitempty"`
	Actual   *DriftEntry `json:"actual,omitempty"`
	// Modified is when the file there was last modified, as its file system says.
	Modified *metav1.Time `json:"modified,omitempty"`
	// Secret contents have neither digests here nor a diff on the node.
	Secret bool `json:"secret,omitempty"`
}

// DriftKind says what of a thing differs; of several, the first in the order of the constants.
type DriftKind string

// Kinds of drift.
const (
	// DriftMissing: nothing is there.
	DriftMissing DriftKind = "missing"
	// DriftType: something of another type is there, or something where nothing should be.
	DriftType DriftKind = "type"
	// DriftContent: a file's bytes differ.
	DriftContent DriftKind = "content"
	// DriftTarget: a link leads elsewhere.
	DriftTarget DriftKind = "target"
	// DriftMode: permission bits differ.
	DriftMode DriftKind = "mode"
	// DriftOwner: user or group differ.
	DriftOwner DriftKind = "owner"
	// DriftEnablement: a unit is enabled and should not be, or the other way round.
	DriftEnablement DriftKind = "enablement"
	// DriftAccount: a user or group differs.
	DriftAccount DriftKind = "account"
	// DriftOS: image or kernel arguments differ.
	DriftOS DriftKind = "os"
)

// DriftEntry is one side of a path, or of a unit's enablement.
type DriftEntry struct {
	// Type is file, dir, link or other; empty for nothing. Of a unit's enablement it is enabled or disabled.
	Type string `json:"type,omitempty"`
	// Digest of a file's contents, sha256 in hex; empty for secret ones.
	Digest string `json:"digest,omitempty"`
	// Mode as four octal digits; empty for links.
	Mode string `json:"mode,omitempty"`
	// Owner as uid:gid.
	Owner string `json:"owner,omitempty"`
	// Target of a link.
	Target string `json:"target,omitempty"`
}

// DriftExport is one path as a node has it, to be taken into a repository. It has contents: it is for who may read root's
// files on the node, and is never stored in the cluster.
type DriftExport struct {
	// Path on the node.
	Path string `json:"path"`
	// Config that was in force, from which the path differs.
	Config string `json:"config"`
	// Type is file, link or dir.
	Type string `json:"type"`
	// Mode has the permission bits; nil for links.
	Mode *int32 `json:"mode,omitempty"`
	// UID and GID of the owner.
	UID int64 `json:"uid,omitempty"`
	GID int64 `json:"gid,omitempty"`
	// Target of a link.
	Target string `json:"target,omitempty"`
	// Contents of a file.
	Contents []byte `json:"contents,omitempty"`
	// Secret: the contents belong into no repository as they are.
	Secret bool `json:"secret,omitempty"`
}
