package transpile

import (
	"fmt"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// ruleSecretReference is the rule of references to secrets.
const ruleSecretReference = "secret-reference"

// The limits of one document. The server resolves all references of a config for each of its nodes.
const (
	maxReferences  = 100
	maxSecretBytes = 512 << 10
)

// CheckReferences refuses references to secrets that the server would not resolve, and more than a config may have.
func CheckReferences(c machineconfig.Config, places origin.Map) []origin.Finding {
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
