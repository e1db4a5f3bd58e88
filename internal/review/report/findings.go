package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/transpile"
)

// Format is one way to write findings.
type Format string

// Text is for people, JSON for scripts, and each other format for the system that it is named after.
const (
	PlainText Format = "text"
	JSON      Format = "json"
	SARIF     Format = "sarif"
	GitHub    Format = "github"
	GitLab    Format = "gitlab"
	JUnit     Format = "junit"
)

// Formats has all formats, in the order in which a help text lists them.
var Formats = []Format{PlainText, JSON, SARIF, GitHub, GitLab, JUnit}

// Findings are the result of one check of a directory.
type Findings struct {
	// Directory is relative to the repository's root, or "" for it: CI systems need paths from there.
	Directory string
	Version   string
	Entries   transpile.Report
	// Pools that the directory renders; none with a fatal entry.
	Pools []PoolFindings
}

// PoolFindings is one pool with its rendered config.
type PoolFindings struct {
	Pool      string `json:"pool"`
	Rendered  string `json:"rendered"`
	Documents int    `json:"documents"`
}

// Write returns the findings, ending in a newline unless empty. It fails for an unknown format alone.
func (f Findings) Write(format Format) (string, error) {
	switch format {
	case PlainText:
		return f.text(), nil
	case JSON:
		return indented(f.data())
	case SARIF:
		return indented(f.sarif())
	case GitHub:
		return f.github(), nil
	case GitLab:
		return indented(f.gitlab())
	case JUnit:
		return f.junit()
	}
	return "", fmt.Errorf("--output %q: want one of %v", format, Formats)
}

func indented(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("writing findings: %w", err)
	}
	return b.String(), nil
}

func (f Findings) text() string {
	var b strings.Builder
	for _, e := range f.Entries {
		b.WriteString(safetext.Lines(e.String()) + "\n")
	}
	if f.Entries.Fatal() {
		return b.String()
	}
	for _, p := range f.Pools {
		b.WriteString(safetext.Line(fmt.Sprintf("pool %s: %s, %s", p.Pool, documents(p.Documents), p.Rendered)) + "\n")
	}
	b.WriteString("valid\n")
	return b.String()
}

func documents(n int) string {
	if n == 1 {
		return "1 document"
	}
	return fmt.Sprintf("%d documents", n)
}

// data is the JSON form: version 1, with paths from the directory that was checked.
type data struct {
	Version  string         `json:"version"`
	Valid    bool           `json:"valid"`
	Findings []finding      `json:"findings"`
	Pools    []PoolFindings `json:"pools"`
}

type finding struct {
	Severity string `json:"severity"`
	Rule     string `json:"rule"`
	Message  string `json:"message"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
}

func (f Findings) data() data {
	out := data{Version: "1", Valid: !f.Entries.Fatal(), Findings: []finding{}, Pools: f.Pools}
	for _, e := range f.Entries {
		out.Findings = append(out.Findings, finding{e.Severity.String(), e.Rule, e.Message, e.File, e.Line, e.Column})
	}
	if out.Pools == nil {
		out.Pools = []PoolFindings{}
	}
	return out
}

// file returns a path from the repository's root; the directory for an entry without a file.
func (f Findings) file(e transpile.Entry) string {
	if p := path.Join(f.Directory, e.File); p != "" {
		return p
	}
	return "."
}

// fingerprint identifies a finding independently of its line.
func (f Findings) fingerprint(e transpile.Entry) string {
	sum := sha256.Sum256([]byte(e.Rule + "\x00" + f.file(e) + "\x00" + e.Message))
	return hex.EncodeToString(sum[:16])
}

var (
	commandText  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandValue = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// github writes workflow commands, and below them the plain text for readers of the log.
func (f Findings) github() string {
	var b strings.Builder
	for _, e := range f.Entries {
		fmt.Fprintf(&b, "::%s file=%s", e.Severity, commandValue.Replace(safetext.Lines(f.file(e))))
		if e.Line > 0 {
			fmt.Fprintf(&b, ",line=%d", e.Line)
			if e.Column > 0 {
				fmt.Fprintf(&b, ",col=%d", e.Column)
			}
		}
		fmt.Fprintf(&b, ",title=%s::%s\n", commandValue.Replace(safetext.Lines("bunsen: "+e.Rule)),
			commandText.Replace(safetext.Lines(e.Message)))
	}
	return b.String()
}

type issue struct {
	Description string `json:"description"`
	CheckName   string `json:"check_name"`
	Fingerprint string `json:"fingerprint"`
	Severity    string `json:"severity"`
	Location    struct {
		Path  string `json:"path"`
		Lines struct {
			Begin int `json:"begin"`
		} `json:"lines"`
	} `json:"location"`
}

func (f Findings) gitlab() []issue {
	out := []issue{}
	seen := map[string]int{}
	for _, e := range f.Entries {
		i := issue{Description: e.Message, CheckName: e.Rule, Fingerprint: f.fingerprint(e), Severity: "minor"}
		if e.Severity == transpile.Fatal {
			i.Severity = "blocker"
		}
		if n := seen[i.Fingerprint]; n > 0 { // GitLab shows only one issue per fingerprint
			i.Fingerprint = fmt.Sprintf("%s-%d", i.Fingerprint, n)
		}
		seen[f.fingerprint(e)]++
		i.Location.Path = f.file(e)
		i.Location.Lines.Begin = max(e.Line, 1)
		out = append(out, i)
	}
	return out
}

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

// testSuites is a report of JUnit, which Jenkins, GitLab, Azure Pipelines, CircleCI and Buildkite show as tests. A
// problem is a test that failed. A warning is one that passed with an output, and so is each pool that renders.
type testSuites struct {
	XMLName xml.Name  `xml:"testsuites"`
	Suite   testSuite `xml:"testsuite"`
}

type testSuite struct {
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Cases    []testCase `xml:"testcase"`
}

type testCase struct {
	// Class groups the cases: the file.
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	File    string       `xml:"file,attr,omitempty"`
	Line    int          `xml:"line,attr,omitempty"`
	Failure *testFailure `xml:"failure"`
	Output  string       `xml:"system-out,omitempty"`
}

type testFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

func (f Findings) junit() (string, error) {
	suite := testSuite{Name: "bunsen validate"}
	for _, e := range f.Entries {
		c := testCase{
			Class: safetext.Line(f.file(e)), Name: safetext.Line(e.Rule), File: safetext.Line(f.file(e)), Line: e.Line,
		}
		if e.Line > 0 {
			c.Name += fmt.Sprintf(", line %d", e.Line)
		}
		if e.Severity == transpile.Fatal {
			suite.Failures++
			c.Failure = &testFailure{safetext.Line(e.Message), safetext.Line(e.Rule), safetext.Lines(e.String())}
		} else {
			c.Output = safetext.Lines(e.String())
		}
		suite.Cases = append(suite.Cases, c)
	}
	for _, p := range f.Pools {
		suite.Cases = append(suite.Cases, testCase{
			Class: "pool " + safetext.Line(p.Pool), Name: "renders", Output: safetext.Line(p.Rendered),
		})
	}
	suite.Tests = len(suite.Cases)
	text, err := xml.MarshalIndent(testSuites{Suite: suite}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing findings: %w", err)
	}
	return xml.Header + string(text) + "\n", nil
}
