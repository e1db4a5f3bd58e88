package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// recently is how long a replica that is gone is still shown beside others that are there.
const recently = time.Hour

// text prints the replicas, what to see to, and what new machines boot instead of their pools' targets.
func (s *Servers) text(now time.Time) string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(s.table(now).String())
	if s.Note != "" {
		b.WriteString("servers: " + s.Note + "\n")
	}
	for _, w := range s.Warnings {
		b.WriteString("WARNING: " + shorten(w) + "\n")
	}
	for _, r := range s.Boots {
		b.WriteString(r.text() + "\n")
	}
	return b.String()
}

func (s *Servers) table(now time.Time) Table {
	t := Table{Head: []string{"SERVER", "LISTEN", "ACCESS", "SECRETS", "CERTIFICATE", "SERVED", "REFUSED", "STATE"}}
	for _, r := range s.Replicas {
		if !r.Alive && len(s.up()) > 0 && now.Sub(r.at()) > recently {
			continue
		}
		row := []string{r.Name, "-", "-", "-", "-", "-", "-", r.state(r.started(), now)}
		if p := r.Report; p != nil {
			copy(row[1:], []string{dash(p.Listen), r.access(), r.secrets(), r.certificate(), fmt.Sprint(p.Served), fmt.Sprint(p.Refused)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// started is when the process began; zero where that is not known.
func (r ServerRow) started() time.Time {
	if r.Report == nil {
		return time.Time{}
	}
	return r.Report.Started.Time
}

func (r ServerRow) access() string {
	if r.Report.Access == v1alpha1.AccessOpen {
		return "open"
	}
	return "tokens"
}

func (r ServerRow) secrets() string {
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

// text is a sentence.
func (r BootRow) text() string {
	from := ""
	if len(r.Servers) > 0 {
		from = " from " + strings.Join(r.Servers, ", ")
	}
	if r.Config == "" {
		return "new machines of " + r.Pool + " get nothing" + from + ": " + brief(r.Why)
	}
	return "new machines of " + r.Pool + " boot " + ShortRendered(r.Config) + from + " (" + brief(r.Why) + ")"
}

// lines of the screen: how many are there, what to see to, what is served instead of targets; on so many more lines as there
// are to spare.
func (s *Servers) lines(width int, spare *int) []Line {
	if s == nil {
		return nil
	}
	if s.Note != "" {
		return []Line{{{"SERVERS ", Dim}, {s.Note, Plain}}}
	}
	var up []string
	for _, r := range s.up() {
		up = append(up, r.Name)
	}
	first := Line{{"SERVERS ", Dim}, {"none up", Bad}}
	if len(up) > 0 {
		first = Line{{"SERVERS ", Dim}, {fmt.Sprintf("%d up", len(up)), Good}, {"   " + strings.Join(up, ", "), Plain}}
	}
	out := []Line{first}
	for _, w := range s.Warnings {
		out = append(out, labelled("warning", shorten(w), Bad, width, spare)...)
	}
	for _, r := range s.Boots {
		out = append(out, labelled("boots", r.text(), Plain, width, spare)...)
	}
	return out
}

// serverLines are what is told when it changes.
func (s *Status) serverLines() told {
	t := newTold()
	if s.Servers == nil {
		return t
	}
	for _, r := range s.Servers.up() {
		text := "up"
		if r.Report != nil {
			text += ", " + r.access() + ", secrets " + r.secrets()
		}
		t.add(r.Name, text)
	}
	return t
}

// said are the sentences about a pool's new machines.
func (s *Servers) said(pool string) (texts []string) {
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
