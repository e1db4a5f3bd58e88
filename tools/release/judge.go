package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/tools/licence"
	"github.com/bunsen-os/bunsen/tools/linked"
)

// allowed are the licences that a linked module may have, each with the reason.
var allowed = map[string]string{
	"Apache-2.0":      "our own licence",
	"BSD-2-Clause":    "asks for its notice alone",
	"BSD-3-Clause":    "asks for its notice alone",
	"ISC":             "asks for its notice alone",
	"MIT":             "asks for its notice alone",
	"MPL-2.0":         "applies to its own files, which we link unchanged; the notice names the version, whose source is public",
	"Go-patent-grant": "gives rights in addition to the licence of Go",
}

// review is a person's decision about one file that is not only the text of a known licence.
type review struct {
	// Module and File identify the file. File is empty for a module without a file about its licence.
	Module, File string
	// Digest is the SHA-256 of the text. A module without a file has none.
	Digest string
	// Licences are the licences that apply. Licences is empty if the file applies to no linked code.
	Licences []string
	// Text is the name of another module. It is set for a module without a licence file: the notice then contains the
	// licence text of the other module.
	Text    string
	Because string
}

var reviewed = []review{
	{Module: "github.com/ajeddeloh/go-json", Licences: []string{"BSD-3-Clause"}, Text: linked.Go, Because: "a copy of encoding/json; the head of each file names the licence of Go"},
	{Module: "github.com/cyphar/filepath-securejoin", File: "COPYING.md", Digest: "83e36e42b3dacc3d447eca3049848b3e2ff66b6e1768a6a3cf3f27a57079bda4", Licences: []string{"BSD-3-Clause", "MPL-2.0"}, Because: "says which file has which of two licences, and repeats both"},
	{Module: "github.com/opencontainers/go-digest", File: "LICENSE.docs", Digest: "a1d1adec3ba691ef6e377a78bbe9e9e2501f2f4a1723d08857da1ac6564e4fed", Because: "applies to the documentation, which is not linked"},
}

// judged reports whether a file states a licence. A file that only names authors states no licence.
func judged(name string) bool {
	name = strings.ToLower(path.Base(name))
	return !strings.HasPrefix(name, "notice") && !strings.HasPrefix(name, "copyright") && !strings.HasPrefix(name,
		"third")
}

// judge decides which licences modules have.
type judge struct {
	catalogue *licence.Catalogue
	reviews   []review
	used      map[int]bool // used has the indexes of the reviews that were used.
}

func newJudge(reviews []review) (*judge, error) {
	catalogue, err := licence.NewCatalogue()
	if err != nil {
		return nil, err
	}
	return &judge{catalogue, reviews, map[int]bool{}}, nil
}

// licences returns the licences of a module. The error has every reason why they are not allowed.
func (j *judge) licences(m linked.Module) (licences []string, err error) {
	var problems []error
	atRoot := false
	for _, f := range m.Files {
		if !judged(f.Name) {
			continue
		}
		atRoot = atRoot || !strings.Contains(f.Name, "/")
		found := j.catalogue.Identify(f.Text)
		ids, known := found.Licences, found.Known()
		if !known {
			ids, known = j.review(m.Path, f.Name, digest(f.Text))
		}
		if !known {
			problems = append(problems, fmt.Errorf("%s %s: %s is no known licence (sha256 %s)", m.Path, m.Version,
				f.Name, digest(f.Text)))
		}
		licences = append(licences, ids...)
	}
	if !atRoot {
		ids, known := j.review(m.Path, "", "")
		if !known {
			problems = append(problems, fmt.Errorf("%s %s: its root has no licence", m.Path, m.Version))
		}
		licences = append(licences, ids...)
	}
	slices.Sort(licences)
	licences = slices.Compact(licences)
	for _, id := range licences {
		if allowed[id] == "" {
			problems = append(problems, fmt.Errorf("%s %s: licence %s is not allowed", m.Path, m.Version, id))
		}
	}
	return licences, errors.Join(problems...)
}

func (j *judge) review(module, file, digest string) (licences []string, ok bool) {
	for i, r := range j.reviews {
		if r.Module == module && r.File == file && r.Digest == digest {
			j.used[i] = true
			return r.Licences, true
		}
	}
	return nil, false
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// count checks the licences of modules. count returns how many modules have each licence. If a licence is not allowed,
// count returns an error with all problems.
func (j *judge) count(modules map[string]linked.Module) (counts string, err error) {
	var problems []error
	count := map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(modules)) {
		licences, err := j.licences(modules[key])
		if err != nil {
			problems = append(problems, err)
		}
		for _, id := range licences {
			count[id]++
		}
	}
	for i, r := range j.reviews {
		if !j.used[i] {
			problems = append(problems, fmt.Errorf("the review of %s %s is not needed any more, or the text changed: "+
				"remove or renew it in tools/release/judge.go", r.Module, r.File))
		}
	}
	if len(problems) > 0 {
		return "", fmt.Errorf("%w\nlicences of linked modules: see \"Add a module\" in CONTRIBUTING.md",
			errors.Join(problems...))
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%s %d", id, count[id]))
	}
	return strings.Join(parts, ", "), nil
}
