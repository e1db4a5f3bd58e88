package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/vuln/scan"
)

// patience is how long a database may take for its first answer.
const patience = 5 * time.Second

// reachable returns the reason why a database cannot be read, or nil.
func reachable(ctx context.Context, database string) error {
	u, err := url.Parse(database)
	if err != nil {
		return fmt.Errorf("%q is no address: %w", database, err)
	}
	switch u.Scheme {
	case "file":
		entries, err := os.ReadDir(u.Path)
		if err == nil && len(entries) == 0 {
			err = fmt.Errorf("%s is empty", database)
		}
		return err
	case "http", "https":
	default:
		return fmt.Errorf("%q begins with none of file://, http:// and https://", database)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimSuffix(database, "/")+
		"/index/modules.json.gz", nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", database, err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", database, err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: it answers %s", database, answer.Status)
	}
	return nil
}

// finding is one vulnerability whose code is in a binary.
type finding struct {
	// ID is the finding's identifier in the database. Fixed is the first version without the vulnerability; empty if
	// there is none.
	ID, Fixed string
	// Module, Version and Symbol name the affected module, its version and the affected function.
	Module, Version, Symbol string
}

// String returns a text about the finding, with the address of the page about it.
func (f finding) String() string {
	fixed := "no version fixes it"
	if f.Fixed != "" {
		fixed = "fixed in " + f.Fixed
	}
	return fmt.Sprintf("%s in %s %s (%s), %s: https://pkg.go.dev/vuln/%s", f.ID, f.Module, f.Version, f.Symbol, fixed,
		f.ID)
}

// scanBinary returns the vulnerabilities whose functions are in a binary, each once.
func scanBinary(ctx context.Context, database, binary string) ([]finding, error) {
	cmd := scan.Command(ctx, "-mode=binary", "-format=json", "-db="+database, binary)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("checking %s for vulnerabilities: %w: %s", binary, err,
			bytes.TrimSpace(problems.Bytes()))
	}
	findings, err := readFindings(&out)
	if err != nil {
		return nil, fmt.Errorf("reading the findings in %s: %w", binary, err)
	}
	return findings, nil
}

// readFindings reads the messages of govulncheck. govulncheck has three levels of findings. readFindings uses only the
// level of symbols, because a vulnerability in an unused part of a module or package is no finding.
func readFindings(in io.Reader) ([]finding, error) {
	var all []finding
	for dec := json.NewDecoder(in); ; {
		var message struct {
			Finding *struct {
				OSV          string `json:"osv"`
				FixedVersion string `json:"fixed_version"`
				Trace        []struct{ Module, Version, Package, Function, Receiver string }
			}
		}
		if err := dec.Decode(&message); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading a message: %w", err)
		}
		f := message.Finding
		if f == nil || len(f.Trace) == 0 || f.Trace[0].Function == "" {
			continue
		}
		at := f.Trace[0]
		symbol := at.Package + "." + at.Function
		if at.Receiver != "" {
			symbol = at.Package + "." + at.Receiver + "." + at.Function
		}
		all = append(all, finding{f.OSV, f.FixedVersion, at.Module, at.Version, symbol})
	}
	slices.SortFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Symbol, b.Symbol))
	})
	return slices.CompactFunc(all, func(a, b finding) bool { return a.ID == b.ID && a.Module == b.Module }), nil
}

// readAccepted reads lines of an identifier and a reason. A reason is mandatory.
func readAccepted(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading accepted vulnerabilities: %w", err)
	}
	accepted := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, why, _ := strings.Cut(line, " ")
		if len(strings.Fields(why)) < 3 {
			return nil, fmt.Errorf("reading accepted vulnerabilities %q: %q has no reason", file, id)
		}
		accepted[id] = why
	}
	return accepted, nil
}
