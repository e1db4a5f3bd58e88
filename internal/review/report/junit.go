package report

import (
	"encoding/xml"
	"fmt"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/transpile"
)

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
