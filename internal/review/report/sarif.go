package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/transpile"
)

const sarifSchema = "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/main/sarif-2.1/schema/sarif-schema-2.1.0.json"

// sarifLog has the properties that readers of findings use. SARIF defines defaults for all others.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool    sarifTool     `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	} `json:"driver"`
}

type sarifRule struct {
	ID string `json:"id"`
}

type sarifResult struct {
	RuleID              string            `json:"ruleId"`
	RuleIndex           int               `json:"ruleIndex"`
	Level               string            `json:"level"`
	Message             sarifMessage      `json:"message"`
	Locations           []sarifLocation   `json:"locations"`
	PartialFingerprints map[string]string `json:"partialFingerprints"`
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	PhysicalLocation struct {
		ArtifactLocation struct {
			URI       string `json:"uri"`
			URIBaseID string `json:"uriBaseId"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

func (f Findings) sarif() sarifLog {
	rules := f.rules()
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver.Name, run.Tool.Driver.Version = "bunsen", f.Version
	run.Tool.Driver.InformationURI = "https://github.com/bunsen-os/bunsen"
	run.Tool.Driver.Rules = []sarifRule{}
	for _, rule := range rules {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{rule})
	}
	for _, e := range f.Entries {
		var at sarifLocation
		at.PhysicalLocation.ArtifactLocation.URI = uri(f.file(e))
		at.PhysicalLocation.ArtifactLocation.URIBaseID = "%SRCROOT%"
		if e.Line > 0 {
			at.PhysicalLocation.Region = &sarifRegion{e.Line, max(e.Column, 0)}
		}
		level := "warning"
		if e.Severity == transpile.Fatal {
			level = "error"
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: e.Rule, RuleIndex: slices.Index(rules, e.Rule), Level: level, Message: sarifMessage{e.Message},
			Locations: []sarifLocation{at}, PartialFingerprints: map[string]string{"bunsen/v1": f.fingerprint(e)},
		})
	}
	return sarifLog{sarifSchema, "2.1.0", []sarifRun{run}}
}

func (f Findings) rules() []string {
	var rules []string
	for _, e := range f.Entries {
		rules = append(rules, e.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// uri escapes the characters that a relative URI reference must not contain (RFC 3986).
func uri(file string) string {
	var b strings.Builder
	for _, c := range []byte(file) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("/-._~@+=,", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
