package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

// ForTerminal lays an answer out for the terminal that standard output is, in colours if it has them. It returns any
// other output as it is, because programs read it.
func ForTerminal(text string) string {
	width := Width()
	if width == 0 {
		return text
	}
	if text = terminal.Fit(text, width); Colour() {
		text = Coloured(text)
	}
	return text
}

// The words of states, which stand in a cell of a table or begin a sentence about a subject.
const (
	goodWords = `Updated|updated|Done|True|ready|fine|leader`
	workWords = `Updating|Working|Rolling|waiting|Waiting|waits|rebooting|draining`
	badWords  = `Degraded|degraded|Blocked|blocked|failed|Failed|False|UNKNOWN|UNREADY|halted|reverted|gone`
)

var (
	// verdict matches the first line of a why: `pool/worker is blocked: …`.
	verdict = regexp.MustCompile(`^((?:node|pool|gitsource)/\S+ (?:is )?)(` + goodWords + `|` + workWords + `|` +
		badWords + `)\b`)
	// stateCell matches a cell of a table that begins with the word of a state.
	stateCell = regexp.MustCompile(`( {2})(` + goodWords + `|` + workWords + `|` + badWords + `)\b`)
	headings  = regexp.MustCompile(`^[A-Z][A-Z -]*$`)
	badWord   = regexp.MustCompile(`^(` + badWords + `)$`)
	goodWord  = regexp.MustCompile(`^(` + goodWords + `)$`)
)

// Coloured gives the words of states the colours that the live screen has: what failed is red, what is done is green.
func Coloured(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.TrimSuffix(line, "\n"), "\n"
		switch at := verdict.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "WARNING:"), strings.HasPrefix(line, "error:"):
			_, rest, _ := strings.Cut(line, ":")
			line = terminal.Bad.Colour(strings.TrimSuffix(line, rest)) + rest
		case headings.MatchString(line) && strings.Contains(line, "  "):
			line = terminal.Dim.Colour(line)
		case at != nil:
			line = at[1] + colourOf(at[2]).Colour(at[2]) + line[len(at[0]):]
		default:
			line = stateCell.ReplaceAllStringFunc(line, func(cell string) string {
				word := strings.TrimLeft(cell, " ")
				return strings.TrimSuffix(cell, word) + colourOf(word).Colour(word)
			})
		}
		b.WriteString(line + end)
	}
	return b.String()
}

func colourOf(word string) terminal.Style {
	switch {
	case badWord.MatchString(word):
		return terminal.Bad
	case goodWord.MatchString(word):
		return terminal.Good
	}
	return terminal.Active
}

// helpWidth is the width of help that is not printed on a terminal, and the largest one on a terminal: longer lines are
// hard to read.
const helpWidth = 80

// WrapHelp lets a command and its subcommands wrap their help to the terminal.
func WrapHelp(root *cobra.Command) {
	width := func() int {
		if w := Width(); w > 0 {
			return min(w, helpWidth+20)
		}
		return helpWidth
	}
	cobra.AddTemplateFunc("wrapped", func(text string) string { return terminal.Paragraphs(text, width()) })
	cobra.AddTemplateFunc("flags", func(cmd *cobra.Command, inherited bool) string {
		set := cmd.LocalFlags()
		if inherited {
			set = cmd.InheritedFlags()
		}
		return strings.TrimRight(set.FlagUsagesWrapped(width()), " \n")
	})
	root.SetHelpTemplate(`{{with (or .Long .Short)}}{{. | wrapped}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`)
	usage := root.UsageTemplate()
	usage = strings.ReplaceAll(usage, ".LocalFlags.FlagUsages | trimTrailingWhitespaces", "flags . false")
	usage = strings.ReplaceAll(usage, ".InheritedFlags.FlagUsages | trimTrailingWhitespaces", "flags . true")
	root.SetUsageTemplate(usage)
}
