package review

import (
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// unresolvedPart reads contents that the server resolves. A template is shown as it is, because it has no values. If
// its path is marked as secret, only its references are shown.
func unresolvedPart(name, path string, c machineconfig.SecretContent, marked secretmask.Paths) part {
	if c.Format != "" {
		p := part{name: name, content: c.Body, shown: secretmask.Masked{Text: string(c.Body)}}
		if d, err := document.Parse(document.Format(c.Format), c.Body); err == nil {
			p.encrypted, p.marked = &d, marked.Match(path)
		}
		return p
	}
	text := c.Template
	if marked.Match(path) {
		text = ""
		for _, r := range c.References() {
			text += "${" + r.String() + "}\n"
		}
	}
	if !strings.Contains(text, "\n") {
		text += "\n" // one reference has no end of line
	}
	return part{name: name, content: []byte(c.Template), shown: secretmask.Masked{Text: text}}
}
