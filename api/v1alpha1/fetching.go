package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node downloads the files of its next config before the controller assigns the config. See docs/downloads.md.
const (
	// NextConfigAnnotation on a Node is a NextConfig: the config that the node gets next, so that it downloads the
	// files of the config. It is absent if the node has nothing to download. Writer: the controller.
	NextConfigAnnotation = "bunsen.dev/nextConfig"
	// FetchedAnnotation on a Node is a FetchReport as JSON: whether the node has the files of NextConfigAnnotation.
	// Writer: the daemon.
	FetchedAnnotation = "bunsen.dev/fetched"
)

// NextConfig is the config that a node gets next.
//
// +kubebuilder:object:generate=false
type NextConfig struct {
	// Config is the rendered config, without the revision of its secrets; empty for none.
	Config string
	// Since is when the controller named the config; zero if that is unknown.
	Since time.Time
}

// ParseNextConfig reads NextConfigAnnotation: the config and the time, RFC 3339 in UTC, separated by a blank. An empty
// text is the zero NextConfig.
func ParseNextConfig(text string) NextConfig {
	config, since, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		at = time.Time{}
	}
	return NextConfig{Config: config, Since: at}
}

// String returns the value of NextConfigAnnotation; empty for the zero NextConfig.
func (n NextConfig) String() string {
	if n.Config == "" {
		return ""
	}
	return n.Config + " " + n.Since.UTC().Format(time.RFC3339)
}

// FetchReport says whether a node has everything that it downloads before it is drained for a config.
//
// +kubebuilder:object:generate=false
type FetchReport struct {
	// Config is the rendered config that the report is about; empty for no report.
	Config string `json:"config"`
	// Problem is why the node cannot download a file now; empty if the node has all files. It names the address without
	// its query.
	Problem string `json:"problem,omitempty"`
	// Cause is why the node cannot download the file; absent if only Problem says it.
	Cause FetchCause `json:"cause,omitempty"`
	// Since is when the problem began; absent if there is none.
	Since *metav1.Time `json:"since,omitempty"`
}

// FetchCause is why a node cannot download a file. The values are stable.
type FetchCause string

// FetchUntrusted means that an authority which the node does not trust signed the certificate of the server. The config
// that the node downloads can name further authorities.
const FetchUntrusted FetchCause = "UntrustedAuthority"

// ParseFetchReport reads FetchedAnnotation. An empty text is the zero FetchReport.
func ParseFetchReport(text string) (FetchReport, error) {
	var r FetchReport
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return FetchReport{}, fmt.Errorf("reading annotation %s: %w", FetchedAnnotation, err)
	}
	r.Problem = TruncateReason(r.Problem)
	return r, nil
}

// String returns the value of FetchedAnnotation; empty for the zero FetchReport.
func (r FetchReport) String() string {
	if r.Config == "" {
		return ""
	}
	return marshalled(r)
}
