package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

// recently is how long a replica that has ended is still shown.
const recently = time.Hour

// Text prints the replicas, the warnings, and the pools whose new machines do not get the target.
func (s *Servers) Text(now time.Time) string {
	if s == nil {
		return ""
	}
	var b terminal.Labels
	b.Text(s.table(now))
	if s.Note != "" {
		b.Line("servers: %s", s.Note)
	}
	for _, w := range s.Warnings {
		b.Line("WARNING: %s", Shorten(w))
	}
	for _, r := range s.Boots {
		b.Line("%s", r.text())
	}
	return b.String()
}

func (s *Servers) table(now time.Time) terminal.Table {
	t := terminal.Table{Head: []string{
		"SERVER", "LISTEN", "ACCESS", "SECRETS", "CERTIFICATE", "SERVED", "REFUSED",
		"STATE",
	}}
	for _, r := range s.Replicas {
		if !r.Alive && len(s.Alive()) > 0 && now.Sub(r.at()) > recently {
			continue
		}
		row := []string{r.Name, "-", "-", "-", "-", "-", "-", r.state(r.started(), now)}
		if p := r.Report; p != nil {
			copy(row[1:], []string{
				terminal.Dash(p.Listen), r.Access(), r.Secrets(), r.certificate(),
				fmt.Sprint(p.Served), fmt.Sprint(p.Refused),
			})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r ServerRow) started() time.Time {
	if r.Report == nil {
		return time.Time{}
	}
	return r.Report.Started.Time
}

// Access returns a text that says who gets configs: everyone, or machines with a token.
func (r ServerRow) Access() string {
	if r.Report.Access == v1alpha1.AccessOpen {
		return "open"
	}
	return "tokens"
}

// Secrets returns a text that says which machines get the secrets of configs.
func (r ServerRow) Secrets() string {
	if r.Report.SecretsToAll {
		return "to all"
	}
	return "to nodes"
}

func (r ServerRow) certificate() string {
	if r.Report.CertificateUntil == nil {
		return "-"
	}
	return "until " + r.Report.CertificateUntil.UTC().Format(time.DateOnly)
}

func (r BootRow) text() string {
	from := ""
	if len(r.Servers) > 0 {
		from = " from " + strings.Join(r.Servers, ", ")
	}
	if r.Config == "" {
		return "new machines of " + r.Pool + " get nothing" + from + ": " + Brief(r.Why)
	}
	return "new machines of " + r.Pool + " boot " + ShortRendered(r.Config) + from + " (" + Brief(r.Why) +
		")"
}

// Lines returns the lines of the screen about servers: how many run, the warnings, and the configs that are served
// instead of targets. The parameter spare is how many more lines there may be.
func (s *Servers) Lines(width int, spare *int) []terminal.Line {
	if s == nil {
		return nil
	}
	if s.Note != "" {
		return []terminal.Line{{terminal.Dim.Of("SERVERS "), terminal.Plain.Of(s.Note)}}
	}
	var up []string
	for _, r := range s.Alive() {
		up = append(up, r.Name)
	}
	first := terminal.Line{terminal.Dim.Of("SERVERS "), terminal.Bad.Of("none up")}
	if len(up) > 0 {
		first = terminal.Line{
			terminal.Dim.Of("SERVERS "), terminal.Good.Of(fmt.Sprintf("%d up", len(up))),
			terminal.Plain.Of("   " + strings.Join(up, ", ")),
		}
	}
	out := []terminal.Line{first}
	for _, w := range s.Warnings {
		out = append(out, terminal.Labelled("warning", terminal.Bad.Of(Shorten(w)), width, spare)...)
	}
	for _, r := range s.Boots {
		out = append(out, terminal.Labelled("boots", terminal.Plain.Of(r.text()), width, spare)...)
	}
	return out
}

// BootTexts returns the sentences about a pool's new machines.
func (s *Servers) BootTexts(pool string) (texts []string) {
	if s == nil {
		return nil
	}
	for _, r := range s.Boots {
		if r.Pool == pool {
			texts = append(texts, r.text())
		}
	}
	return texts
}
