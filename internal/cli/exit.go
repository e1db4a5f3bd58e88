package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

// The exit codes, which are the same for every verb (docs/cli.md).
const (
	ExitDifferent   = 1
	ExitInvalid     = 2
	exitUnreachable = 3
	ExitTimeout     = 4
	ExitBlocked     = 5
	ExitDegraded    = 6
)

// ExitError carries an exit code. Err is nil if the verb has already printed the reason.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the text of Err, if Err is set.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Invalid returns an error of the input: exit code 2.
func Invalid(err error) error { return &ExitError{ExitInvalid, err} }

// Unreachable returns an error of a cluster or a service that the verb cannot use: exit code 3.
func Unreachable(err error) error { return &ExitError{exitUnreachable, err} }

// CompleteFlag lets a shell offer the values of a flag of the command.
func CompleteFlag(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	// only for a flag that the command does not have
	_ = cmd.RegisterFlagCompletionFunc(flag, values)
}

// Colour reports whether standard output is a terminal that supports colours (https://no-color.org).
func Colour() bool {
	return os.Getenv("NO_COLOR") == "" && Screen()
}

// Screen reports whether standard output is a terminal that interprets escape sequences.
func Screen() bool {
	fd := int(os.Stdout.Fd())
	return os.Getenv("TERM") != "dumb" && term.IsTerminal(fd) && interpretsEscapes(fd)
}

// Width returns the columns of the terminal that standard output is; 0 if it is none.
func Width() int {
	fd := int(os.Stdout.Fd())
	if !term.IsTerminal(fd) {
		return 0
	}
	width, _, err := term.GetSize(fd)
	if err != nil || width < 1 {
		return 80
	}
	return width
}

// Output is the flag -o of a verb, which selects one of several output forms.
type Output struct {
	Form  string
	forms []string
}

// AddFlag adds -o. The first form is the default; an empty help lists the forms.
func (o *Output) AddFlag(cmd *cobra.Command, help string, forms ...string) {
	o.forms = forms
	cmd.Flags().StringVarP(&o.Form, "output", "o", forms[0], cmp.Or(help, o.list()))
	CompleteFlag(cmd, "output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
}

func (o *Output) list() string {
	last := len(o.forms) - 1
	return strings.Join(o.forms[:last], ", ") + " or " + o.forms[last]
}

// Check rejects a form that the verb does not have.
func (o *Output) Check() error {
	if !slices.Contains(o.forms, o.Form) {
		return Invalid(fmt.Errorf("--output %q: want %s", o.Form, o.list()))
	}
	return nil
}

// Print writes v as JSON or YAML, or else the text.
func (o *Output) Print(w io.Writer, text string, v any) error {
	if o.Form != "json" && o.Form != "yaml" {
		_, err := io.WriteString(w, text)
		return err
	}
	raw, err := json.MarshalIndent(v, "", "  ")
	if err == nil && o.Form == "yaml" {
		raw, err = yaml.JSONToYAML(raw)
	}
	if err != nil {
		return fmt.Errorf("printing as %s: %w", o.Form, err)
	}
	_, err = fmt.Fprintf(w, "%s\n", strings.TrimSuffix(string(raw), "\n"))
	return err
}

// Say writes a line for the user to a writer other than standard output.
func Say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "%s\n", safetext.Lines(fmt.Sprintf(format, args...)))
}

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
	badWords  = `Degraded|degraded|Blocked|blocked|failed|Failed|False|UNKNOWN|UNREADY|Halted|halted|Reverted|reverted|` +
		`refused|gone`
)

var (
	// verdict matches the first line of a why: `pool/worker is blocked: …`, and that of a status.
	verdict = regexp.MustCompile(`^( *(?:node|pool|gitsource)/\S+ (?:is )?)(` + goodWords + `|` + workWords + `|` +
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

// meant are the flags that say which commit, node, pool or time a user means. Without them, a verb takes another one,
// so an empty value would be a silent change of what the user asked for.
var meant = []string{"at", "node", "pool", "revision", "to", "until"}

// RefuseEmpty lets a command and its subcommands refuse an empty argument, and an empty value of the flags that name
// something: the variable of a script that is not set would count as "all", "HEAD" or "for ever".
func RefuseEmpty(root *cobra.Command) {
	const advice = "give it a value or leave it out; in a script, is a variable not set?"
	for _, cmd := range root.Commands() {
		RefuseEmpty(cmd)
	}
	check := root.Args
	if check == nil { // A command that only has subcommands; cobra itself tells an unknown one.
		return
	}
	root.Args = func(cmd *cobra.Command, args []string) error {
		for i, arg := range args {
			if arg == "" {
				return fmt.Errorf("argument %d is empty: %s", i+1, advice)
			}
		}
		for _, name := range meant {
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
				return fmt.Errorf("--%s is empty: %s", name, advice)
			}
		}
		return check(cmd, args)
	}
}
