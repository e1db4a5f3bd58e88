package transpile

import (
	"bytes"
	"io/fs"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// ruleSecretPaths is the rule of the annotation for secret paths.
const ruleSecretPaths = "secret-paths"

// readSecretPaths reads the annotation for secret paths of documents that become one fragment.
func (d *translation) readSecretPaths(repository fs.FS, docs []documents.Document) {
	var all []string
	for _, doc := range docs {
		all = append(all, d.secretPathsOf(repository, doc)...)
	}
	d.secretPaths = secretmask.Join(all)
}

// secretPathsOf reads the annotation of one document. A document without metadata, such as a Butane config, cannot have
// the annotation. If such a document mentions the annotation, secretPathsOf adds a warning that says where to set it.
func (d *translation) secretPathsOf(repository fs.FS, doc documents.Document) []string {
	if doc.Kind == documents.Butane || doc.Kind == documents.Ignition {
		src, err := fs.ReadFile(repository, doc.File)
		before, _, mentioned := bytes.Cut(src, []byte(v1alpha1.SecretPathsAnnotation))
		if err == nil && mentioned {
			at := origin.Pos{File: doc.File, Line: 1 + bytes.Count(before, []byte("\n"))}
			d.Warnf(at, ruleSecretPaths, "%s has no effect here, because a document of kind %s has no annotations. "+
				"Set it on the MachineConfigPool in cluster/; for all pools, set it on the MachineConfiguration",
				v1alpha1.SecretPathsAnnotation, doc.Kind)
		}
		return nil
	}
	whole, err := kinds.ReadObject(doc.Source)
	if err != nil {
		return nil // The translation of the document reports this error.
	}
	meta, _ := whole["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, _ := annotations[v1alpha1.SecretPathsAnnotation].(string)
	paths, err := secretmask.ParsePaths(text)
	if err != nil {
		at, _ := doc.Origin.Find("$.metadata.annotations." + v1alpha1.SecretPathsAnnotation)
		d.Errorf(at, ruleSecretPaths, "%s: %v", v1alpha1.SecretPathsAnnotation, err)
		return nil
	}
	return paths
}
