package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/tools/linked"
)

const rule = "================================================================================\n"

// notices returns the text of the notices for a binary. notices lists its modules with their licences, and contains
// each licence text once, with the modules that have it.
func (j *judge) notices(name, version, own string, modules []linked.Module) (string, error) {
	var index, body strings.Builder
	var texts []string
	var holders [][]string
	add := func(text, holder string) int {
		i := slices.Index(texts, text)
		if i < 0 {
			texts, holders = append(texts, text), append(holders, nil)
			i = len(texts) - 1
		}
		holders[i] = append(holders[i], holder)
		return i + 1
	}
	fmt.Fprintf(&index, "%s %s: licences and notices\n\n%s is under the Apache License 2.0. It contains the modules "+
		"below under their own licences.\n", name, version, name)
	fmt.Fprintf(&index, "The number in brackets is that of the text. `go mod download MODULE@VERSION` gives the "+
		"source of a module.\n\n")
	fmt.Fprintf(&index, "%s %s (Apache-2.0) [%d]\n", name, version, add(own, name))
	for _, m := range modules {
		licences, err := j.licences(m)
		if err != nil {
			return "", fmt.Errorf("writing the notices of %s: %w", name, err)
		}
		var numbers []string
		for _, f := range m.Files {
			numbers = append(numbers, fmt.Sprint(add(f.Text, m.Path+" "+f.Name)))
		}
		for _, f := range j.substitute(m, modules) {
			numbers = append(numbers, fmt.Sprint(add(f.Text, m.Path)))
		}
		fmt.Fprintf(&index, "%s %s (%s) [%s]\n", m.Path, m.Version, strings.Join(licences, ", "),
			strings.Join(numbers, ", "))
	}
	for i, text := range texts {
		fmt.Fprintf(&body, "\n%s[%d] %s\n%s\n%s\n", rule, i+1, strings.Join(holders[i], "\n    "), rule,
			strings.TrimRight(text, "\n"))
	}
	return index.String() + body.String(), nil
}

// substitute returns the licence files that a review names for a module without its own licence file.
func (j *judge) substitute(m linked.Module, modules []linked.Module) (files []linked.File) {
	for _, r := range j.reviews {
		if r.Module != m.Path || r.Text == "" {
			continue
		}
		for _, other := range modules {
			if other.Path == r.Text {
				files = append(files, other.Files...)
			}
		}
	}
	return files
}
