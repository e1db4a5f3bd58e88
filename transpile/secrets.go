package transpile

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
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

// ruleSecretReference is the rule of references to secrets.
const ruleSecretReference = "secret-reference"

// The limits of one document. The server resolves all references of a config for each of its nodes.
const (
	maxReferences  = 100
	maxSecretBytes = 512 << 10
)

// checkReferences refuses references to secrets that the server would not resolve, and more than a config may have.
func checkReferences(c machineconfig.Config, places origin.Map) []origin.Finding {
	d := checker{places: places}
	references, size := map[machineconfig.SecretReference]bool{}, 0
	for i, f := range c.Ignition.Storage.Files {
		at := fmt.Sprintf("$.storage.files.%d.contents.source", i)
		one := machineconfig.Config{Ignition: ign.Config{Storage: ign.Storage{Files: []ign.File{f}}}}
		found, err := machineconfig.SecretFilesOf(one)
		if err != nil {
			d.referenceError(at, err)
			continue
		}
		for _, file := range found {
			size += len(file.Content.Template) + len(file.Content.Body)
			for _, r := range file.Content.References() {
				references[r] = true
			}
		}
	}
	rest := c
	rest.Ignition.Storage.Files = nil
	if _, err := machineconfig.SecretFiles(rest); err != nil {
		d.referenceError("$", err)
	}
	if len(references) > maxReferences || size > maxSecretBytes {
		d.referenceError("$", fmt.Errorf("the document has %d references, at most %d are allowed; its templates and "+
			"encrypted files have %d bytes, at most %d: split the document", len(references), maxReferences, size,
			maxSecretBytes))
	}
	return d.List
}

// checker collects the findings.
type checker struct {
	origin.Findings
	places origin.Map
}

func (d *checker) referenceError(path string, err error) {
	at, _ := d.places.Find(path)
	for line := range strings.SplitSeq(err.Error(), "\n") {
		d.Errorf(at, ruleSecretReference, "%s", line)
	}
}
