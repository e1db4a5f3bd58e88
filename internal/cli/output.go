package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// CompleteFlag lets a shell offer the values of a flag of the command.
func CompleteFlag(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	// The registration fails only for a flag that the command does not have.
	_ = cmd.RegisterFlagCompletionFunc(flag, values)
}

// Colour reports whether standard output is a terminal that supports colours (https://no-color.org).
func Colour() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(os.Stdout.Fd()))
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

// list returns the names of the forms, such as `table, json or yaml`.
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

// Print writes v as JSON or YAML. For any other form, Print writes the text.
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
