package overlay

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// change is the application of one step to one document.
type change struct {
	step     *Step
	document *document
	name     string // the name of the document after the step
	// source is the document from which a replacement copies its value. sourceName is the name that this document has
	// at the time of the replacement.
	source     *document
	sourceName string
}

// apply applies the change. apply does nothing if the document is deleted or has a fatal finding.
func (c change) apply(b *builder) {
	d := c.document
	d.load()
	if d.root == nil || origin.Fatal(d.findings) {
		return
	}
	if !b.spend(1000 + size(d.root, maxGrown)) {
		d.fatal(c.step.At, "too-large", "patching all documents needs more work than a repository of this size may "+
			"request: use fewer patches that select many documents")
		return
	}
	defer d.recoverPanic()
	if !c.step.Selector.MatchesMetadata(d.root) {
		return
	}
	d.effects = append(d.effects, effect{step: c.step, what: applied})
	if c.transform(b) {
		c.checkSize()
	}
}

// transform applies the step to the document. If the step fails, transform adds a fatal finding to the document and
// returns false.
func (c change) transform(b *builder) bool {
	switch t := c.step.Transform.(type) {
	case *Patch:
		return applyPatch(b, t, c)
	case Replacement:
		return applyReplacement(t, c)
	case SetMetadata:
		return applyMetadata(t, c)
	case Rename:
		return applyRename(c)
	default:
		return false
	}
}

// recoverPanic turns a panic in kustomize into a finding, so that the panic fails only this build.
func (d *document) recoverPanic() {
	if recover() != nil {
		d.fatal(origin.Pos{File: d.file.Path}, "kustomize", "the document cannot be built: kustomize failed "+
			"unexpectedly while it applied the patches")
	}
}

// checkSize refuses a document that grew too large. checkSize reports whether the size is allowed.
func (c change) checkSize() bool {
	d := c.document
	if d.root != nil && size(d.root, maxGrown) > maxGrown {
		return d.fatal(c.step.At, "too-large", "with this the document %q has more than %d bytes", d.name(), maxGrown)
	}
	return true
}

// size returns approximately how many bytes a tree needs. size stops counting above the limit.
func size(n *yaml.Node, limit int) int {
	total := 16 + len(n.Value)
	for _, c := range n.Content {
		if total > limit {
			break
		}
		total += size(c, limit-total)
	}
	return total
}

// quoting matches the parts of kustomize's errors that quote documents and patches, because these may contain secrets.
var quoting = regexp.MustCompile(":? ?(?:node contents: .*|(?:with config: ?)?`.*`|from \\[patch: .*\\]|in the YAML: " +
	".*|for value .*)")

// kustomizeFailed adds kustomize's error as a finding, without the quoted parts, and returns false.
func (d *document) kustomizeFailed(at origin.Pos, err error) bool {
	msg := strings.Join(strings.Fields(err.Error()), " ")
	msg = quoting.ReplaceAllString(msg, "")
	if d.file.Info.Wrapped {
		msg = strings.NewReplacer("/spec/", "/", `"spec.`, `"`, " spec.", " ").Replace(msg)
	}
	return d.fatal(at, "kustomize", "kustomize cannot apply this to %q (%s): %s", d.name(), d.file.Path, msg)
}
