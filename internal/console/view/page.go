package view

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

//go:embed static
var static embed.FS

//go:embed templates/*.html
var files embed.FS

// Static returns the files below /static/: scripts, the style sheet and licences.
func Static() fs.FS {
	sub, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // The folder is embedded in the program, so there is no error.
	}
	return sub
}

// Frame has the data of the parts of a page that surround its regions.
type Frame struct {
	// Title is the title of the page, without the name of the console.
	Title string
	// Here is the entry of the navigation to which the page belongs; empty for none.
	Here string
	// Cluster is the name of the cluster, and Viewer is the name of the user who is signed in.
	Cluster, Viewer string
	// If SignOut is true, the page shows the button that ends the session.
	SignOut bool
	// Command is the command that prints the same data on the command line. It is empty if there is no such command.
	Command string
	// Stream is the path of the page's stream of events; empty for a page that does not change.
	Stream string
}

// Page is one page.
type Page struct {
	Frame
	Regions []Region
}

// Write writes the whole page as HTML.
func (p Page) Write(w io.Writer) error {
	var body strings.Builder
	for _, r := range p.Regions {
		body.WriteString(r.HTML())
	}
	data := struct {
		Frame
		Body template.HTML
	}{p.Frame, template.HTML(body.String())} // Templates make the regions, and templates escape texts.
	if err := templates.ExecuteTemplate(w, "page.html", data); err != nil {
		return fmt.Errorf("writing the page %q: %w", p.Title, err)
	}
	return nil
}

// partsMarker marks the place in a template at which the parts of a region are inserted. Data cannot contain
// partsMarker, because templates escape `<`.
const partsMarker = "<!--parts-->"

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"parts":    func() template.HTML { return partsMarker },
	"shown":    func(text string) string { return safetext.Line(cutLine(text)) },
	"rendered": fleet.ShortRendered,
	"revision": fleet.ShortRevision,
	"age":      func(at *time.Time, now time.Time) string { return ageText(at, now) },
	"iso":      func(at *time.Time) string { return isoText(at) },
}).ParseFS(files, "templates/*.html"))

func ageText(at *time.Time, now time.Time) string {
	if at == nil {
		return "unknown"
	}
	return terminal.Age(*at, now)
}

func isoText(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// draw makes a region with a template. The template's first element has the id, and `{{parts}}` marks the place at
// which the parts are inserted.
func draw(id, name string, data any, parts ...Region) Region {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		// Templates and the types of their data are fixed, and tests draw each template.
		panic(fmt.Sprintf("template %s: %v", name, err))
	}
	open, end, _ := strings.Cut(strings.TrimSpace(b.String()), partsMarker)
	return Region{ID: id, Open: open, Parts: parts, Close: end}
}
