package overlay

import (
	"encoding/json"
	"fmt"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// A builder's memory can be written down, so that another process need not parse what has not changed. What is written
// down of a document is its name and key: who knows by the key what the document became does not need the rest.

// learned is a part of a memory in writing.
type learned struct {
	Files     []learnedFile
	Documents []learnedDocument
}

// learnedFile is what a file declares.
type learnedFile struct {
	Key      string
	Kind     Kind             `json:",omitempty"`
	Name     string           `json:",omitempty"`
	Findings []origin.Finding `json:",omitempty"`
	// Broken and so on are declared's own.
	Broken, Named, Foreign, Almost, Rewritten bool `json:",omitempty"`
}

// learnedDocument is a document as all its steps left it, briefly.
type learnedDocument struct {
	Key      string
	Name     string           `json:",omitempty"`
	Kind     Kind             `json:",omitempty"`
	File     string           `json:",omitempty"`
	Document string           `json:",omitempty"` // its Key
	Deleted  bool             `json:",omitempty"`
	Findings []origin.Finding `json:",omitempty"`
	Facts    []learnedFact    `json:",omitempty"`
}

type learnedFact struct {
	Step       int
	What       effect
	List, Name string
	At, Was    origin.Pos
}

// Learned writes down what a build without fatal findings found out, as far as the builder still remembers.
func (m *Builder) Learned(r Result) ([]byte, error) {
	var out learned
	for _, f := range r.Reads {
		key := fileKey(f.Path, f.Blob)
		if d, ok := m.declared.get(key); ok {
			out.Files = append(out.Files, learnedFile{
				Key: key, Kind: d.about.kind, Name: d.name, Findings: d.findings,
				Broken: d.broken, Named: d.named, Foreign: d.foreign, Almost: d.almost, Rewritten: d.rewritten,
			})
		}
	}
	for _, key := range r.Keys {
		made, ok := m.documents.get(key)
		if !ok {
			continue
		}
		d := learnedDocument{
			Key: key, Name: made.document.Name, Kind: made.document.Kind, File: made.document.File, Document: made.document.Key,
			Deleted: made.deleted, Findings: made.findings,
		}
		for _, f := range made.facts {
			d.Facts = append(d.Facts, learnedFact{f.step, f.what, f.entry.list, f.entry.name, f.at, f.was})
		}
		out.Documents = append(out.Documents, d)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("writing what a build found out: %w", err)
	}
	return raw, nil
}

// Learn takes over what Learned wrote. What it cannot read it leaves; that it is what Learned wrote is the caller's to
// know.
func (m *Builder) Learn(raw []byte) {
	var in learned
	if json.Unmarshal(raw, &in) != nil {
		return
	}
	for _, f := range in.Files {
		a, known := f.Kind.about()
		if !known && f.Kind != "" {
			continue
		}
		if _, ok := m.declared.get(f.Key); ok {
			continue
		}
		m.declared.put(f.Key, declared{
			about: a, name: f.Name, findings: f.Findings,
			broken: f.Broken, named: f.Named, foreign: f.Foreign, almost: f.Almost, rewritten: f.Rewritten,
		}, 200+200*len(f.Findings))
	}
	for _, d := range in.Documents {
		if _, ok := m.documents.get(d.Key); ok {
			continue
		}
		made := &built{brief: true, deleted: d.Deleted, findings: d.Findings}
		made.document = Document{Name: d.Name, Kind: d.Kind, File: d.File, Key: d.Document}
		for _, f := range d.Facts {
			made.facts = append(made.facts, fact{f.Step, f.What, entry{f.List, f.Name}, f.At, f.Was})
		}
		m.documents.put(d.Key, made, 700)
	}
}

// enough tells whether a remembered document is all that this build asks for.
func (s *sharing) enough(made *built) bool {
	return !made.brief || made.deleted || s.known[made.document.Key]
}
