package transpile

import (
	"bytes"
	"io/fs"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/secret"
	"github.com/bunsen-os/bunsen/transpile/object"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// ruleMarks is the rule of marks of secret paths.
const ruleMarks = "secret-paths"

// readMarks reads the annotation of a document that marks paths as secret. A document without metadata, such as Butane, cannot
// have one: a mention of it there is a warning that says where to set it.
func (d *draft) readMarks(repository fs.FS, doc overlay.Document) {
	if doc.Kind == overlay.Butane || doc.Kind == overlay.Ignition {
		src, err := fs.ReadFile(repository, doc.File)
		before, _, mentioned := bytes.Cut(src, []byte(v1alpha1.SecretPathsAnnotation))
		if err == nil && mentioned {
			d.findings = append(d.findings, origin.Finding{
				Warning: true, Rule: ruleMarks, At: origin.Pos{File: doc.File, Line: 1 + bytes.Count(before, []byte("\n"))},
				Message: v1alpha1.SecretPathsAnnotation + " has no effect here, because a document of kind " + string(doc.Kind) + " has no annotations: set it on the MachineConfigPool in cluster/, or for all pools on the MachineConfiguration",
			})
		}
		return
	}
	whole, err := object.Read(doc.Source)
	if err != nil {
		return // the translation of the document reports it
	}
	meta, _ := whole["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, _ := annotations[v1alpha1.SecretPathsAnnotation].(string)
	paths, err := secret.ParsePaths(text)
	if err != nil {
		at, _ := doc.Origin.Find("$.metadata.annotations." + v1alpha1.SecretPathsAnnotation)
		d.fatal(at, ruleMarks, "%s: %v", v1alpha1.SecretPathsAnnotation, err)
		return
	}
	d.marks = secret.Join(paths)
}
