package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node pulls and pins the images of its pool's PinnedImageSets. See docs/pinned-images.md.
const (
	// PinAnnotation on a Node is a PinRequest as JSON: the PinnedImageSets whose images the node pulls and pins.
	// Without it, the node unpins the images that it pinned. Writer: the controller.
	PinAnnotation = "bunsen.dev/pinnedImageSets"
	// PinnedAnnotation on a Node is a PinReport as JSON: whether the node has the images of PinAnnotation. Writer: the
	// daemon.
	PinnedAnnotation = "bunsen.dev/pinned"
)

// PinRequest names PinnedImageSets whose images a node pulls and pins.
//
// +kubebuilder:object:generate=false
type PinRequest struct {
	// Digest is that of the sets; see pinnedimage.Digest. It is empty for no sets.
	Digest string `json:"digest"`
	// Sets are the names of the sets, sorted.
	Sets []string `json:"sets,omitempty"`
	// Since is when the controller named the sets; nil if that is unknown.
	Since *metav1.Time `json:"since,omitempty"`
}

// ParsePinRequest reads PinAnnotation. An empty text is the zero PinRequest.
func ParsePinRequest(text string) (PinRequest, error) {
	var r PinRequest
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return PinRequest{}, fmt.Errorf("reading annotation %s: %w", PinAnnotation, err)
	}
	return r, nil
}

// String returns the value of PinAnnotation; empty for no sets.
func (r PinRequest) String() string {
	if r.Digest == "" {
		return ""
	}
	return marshalled(r)
}

// PinReport says whether a node has the images of its PinnedImageSets.
//
// +kubebuilder:object:generate=false
type PinReport struct {
	// Digest is that of the request which the report is about; empty for no report.
	Digest string `json:"digest"`
	// Problem is why the node cannot pull or pin an image now; empty if it has and pins all images.
	Problem string `json:"problem,omitempty"`
	// Since is when the problem began; absent if there is none.
	Since *metav1.Time `json:"since,omitempty"`
}

// ParsePinReport reads PinnedAnnotation. An empty text is the zero PinReport.
func ParsePinReport(text string) (PinReport, error) {
	var r PinReport
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return PinReport{}, fmt.Errorf("reading annotation %s: %w", PinnedAnnotation, err)
	}
	r.Problem = TruncateReason(r.Problem)
	return r, nil
}

// String returns the value of PinnedAnnotation; empty for the zero PinReport.
func (r PinReport) String() string {
	if r.Digest == "" {
		return ""
	}
	return marshalled(r)
}
