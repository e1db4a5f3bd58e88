package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/maruel/natural"
)

// CompareNames orders names as people count: node-2 comes before node-10.
func CompareNames(a, b string) int { return cmp.Or(natural.Compare(a, b), strings.Compare(a, b)) }

// ShortRendered shortens the hash in the text of a v1alpha1.ConfigVersion and the revision of its secrets to five
// digits each, as tables show them.
func ShortRendered(text string) string {
	v := v1alpha1.ParseConfigVersion(text)
	name, secrets := v.Config, v.Secrets
	if i := strings.LastIndexByte(name, '-'); i >= 0 && len(name)-i-1 > 5 {
		name = name[:i+6]
	}
	return v1alpha1.NewConfigVersion(name, secrets[:min(len(secrets), 5)]).String()
}

// the end of a rendered config's name, and the hash of a revision
var (
	longName = regexp.MustCompile(`(rendered-[a-z0-9.-]+-[0-9a-f]{5})[0-9a-f]{27}\b(@[0-9a-f]{1,5})?[0-9a-f]*`)
	longHash = regexp.MustCompile(`(sha(?:1|256):[0-9a-f]{8})(?:[0-9a-f]{56}|[0-9a-f]{32})\b`)
)

// Brief shortens the names and revisions in a text like the columns of a table, and returns its first line.
func Brief(text string) string { return FirstLine(Shorten(text)) }

// Shorten shortens the names and revisions in a text.
func Shorten(text string) string {
	return longHash.ReplaceAllString(longName.ReplaceAllString(text, "$1$2"), "$1")
}

// Person returns the name of an author without the mail address.
func Person(author string) string {
	name, _, _ := strings.Cut(FirstLine(author), "<")
	if name = strings.TrimSpace(name); name != "" {
		return name
	}
	return terminal.Dash(FirstLine(author))
}

// FirstLine returns the first line of a text, and how many more lines there are.
func FirstLine(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return fmt.Sprintf("%s (+%d more)", s[:i], strings.Count(s[i+1:], "\n")+1)
	}
	return s
}

// Alternative returns a line with a command that a user runs instead of those before it, on a condition. Others form
// one list: a user runs all of them in their order.
func Alternative(when, command string) string { return "or, when " + when + ": " + command }

// IsAlternative reports whether Alternative returned this line.
func IsAlternative(line string) bool { return strings.HasPrefix(line, "or, when ") }

// ShellWord quotes a text as one word for a shell: users paste commands, and a node may report any text.
func ShellWord(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._@:+-") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ShellNote quotes a text of other people for the comment behind a command. Some shells take no comments from a
// terminal, so it must be harmless as a word.
func ShellNote(text string) string {
	text = safetext.OneLine(text)
	if !strings.ContainsAny(text, "$`\\\"!'") {
		return `"` + text + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ShellLine returns a command that a shell splits into these words.
func ShellLine(words ...string) string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = ShellWord(word)
	}
	return strings.Join(out, " ")
}

// Names joins the first names, and says how many more there are.
func Names(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Ago returns a function that returns how long ago a time was, as text.
func Ago(now time.Time) func(time.Time) string {
	return func(t time.Time) string { return terminal.Age(t, now) + " ago" }
}

// WhenIn writes times as the reasons of a cluster have them: as ages or, with Timestamps, points in time.
func (f *Fleet) WhenIn() func(time.Time) string {
	if f.Timestamps {
		return func(t time.Time) string { return "at " + t.UTC().Format(time.RFC3339) }
	}
	return Ago(f.Now)
}

// TimeOrNil returns a time, or nil for the zero time.
func TimeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Since returns the duration since a time as text, or "" for an unknown time.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " for " + terminal.Age(t, now)
}

// SinceIn returns the duration since a time as text. If the cluster has Timestamps, it returns the time itself.
func SinceIn(c Cluster, t, now time.Time) string {
	if c.Timestamps && !t.IsZero() {
		return " since " + t.UTC().Format(time.RFC3339)
	}
	return Since(t, now)
}

// AgoIn returns how long ago a time was, as text. If the cluster has Timestamps, it returns the time itself.
func AgoIn(c Cluster, t, now time.Time) string {
	if c.Timestamps && !t.IsZero() {
		return "at " + t.UTC().Format(time.RFC3339)
	}
	return terminal.Age(t, now) + " ago"
}

// Count returns a number with its noun.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Took returns a duration, in hours from a day on. Records have whole seconds.
func Took(d time.Duration) string {
	if d < time.Second {
		return "less than 1s"
	}
	text := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// CommandParts splits a line of Answer.Do: the condition of an Alternative, the command, and the comment behind it.
func CommandParts(line string) (when, command, note string) {
	if rest, is := strings.CutPrefix(line, "or, when "); is {
		if at := strings.Index(rest, ": "); at >= 0 {
			when, line = rest[:at], rest[at+2:]
		}
	}
	command, note, _ = strings.Cut(line, "   # ")
	return when, strings.TrimSpace(command), note
}

// programs begin the commands that a user types. Other advice, such as "push a fix", is for a person to read.
var programs = []string{
	"bunsen", "curl", "echo", "git", "journalctl", "kill", "kubectl", "machine-config-controller", "systemctl", "touch",
}

// IsTyped reports whether a user can type the command of CommandParts as it is.
func IsTyped(command string) bool {
	program, _, _ := strings.Cut(command, " ")
	return slices.Contains(programs, program)
}
