package inspect

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusal is what a GitSource says of a commit that it cannot use.
type refusal struct {
	// problem is the first, and how many more there are; in the line that names the commit, empty where none does.
	problem, in string
	// revision, subject and author of the commit.
	revision, subject, author string
}

// named is the last line of a report: the commit that has the problems.
var named = regexp.MustCompile(`^in (\S+@\S+) ["'](.*)["'] by (.*?)(; nothing of it is applied)?$`)

// parseRefusal takes a message of a GitSource apart.
func parseRefusal(message string) refusal {
	text := strings.TrimSpace(message)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		if m := named.FindStringSubmatch(text[i+1:]); m != nil {
			return refusal{problem: firstLine(text[:i]), in: text[i+1:], revision: m[1], subject: m[2], author: m[3]}
		}
	}
	return refusal{problem: firstLine(text)}
}

// refusalOf reads the condition Ready of a GitSource.
func refusalOf(c *metav1.Condition) refusal {
	if c == nil || c.Status != metav1.ConditionFalse {
		return refusal{}
	}
	return parseRefusal(c.Message)
}

// oneLine is the first line of a text, and the commit where the text names one at its end.
func oneLine(text string) string {
	if r := parseRefusal(text); r.in != "" {
		return r.problem + "; " + r.in
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// briefly is the same for tables, which count the lines that they leave out.
func briefly(text string) string {
	r := parseRefusal(text)
	if r.in != "" {
		r.problem += "; " + r.in
	}
	return shorten(r.problem)
}
