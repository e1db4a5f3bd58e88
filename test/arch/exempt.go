package arch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Exemption lets one subject break one rule.
type Exemption struct {
	// Rule and Subject as a violation prints them in brackets.
	Rule, Subject string
	// Reason is why the rule does not apply here.
	Reason string
	// Where is path:line of the exemption itself.
	Where string
}

// ParseExemptions reads lines of "rule subject reason…". Empty lines and lines
// that begin with # are skipped. It reports every bad line at once.
func ParseExemptions(path, text string) ([]Exemption, error) {
	var all []Exemption
	var errs []error
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		where := fmt.Sprintf("%s:%d", path, i+1)
		switch {
		case !slices.ContainsFunc(Rules, func(r Rule) bool { return r.Name == fields[0] }):
			errs = append(errs, fmt.Errorf("%s: there is no rule %q", where, fields[0]))
		case len(fields) < 5:
			errs = append(errs, fmt.Errorf("%s: want \"rule subject reason\", the reason in a few words that "+
				"convince a reviewer", where))
		default:
			all = append(all, Exemption{fields[0], fields[1], strings.Join(fields[2:], " "), where})
		}
	}
	return all, errors.Join(errs...)
}

// Exempt removes the exempted violations. It adds a violation for each exemption that is no longer needed, so that a
// fixed violation cannot return.
func Exempt(vs []Violation, exemptions []Exemption) []Violation {
	used := make([]bool, len(exemptions))
	var left []Violation
	for _, v := range vs {
		i := slices.IndexFunc(exemptions, func(e Exemption) bool { return e.Rule == v.Rule && e.Subject == v.Subject })
		if i < 0 {
			left = append(left, v)
			continue
		}
		used[i] = true
	}
	for i, e := range exemptions {
		if !used[i] {
			left = append(left, Violation{
				"exemption", e.Rule + ":" + e.Subject, e.Where,
				fmt.Sprintf("nothing breaks rule %s at %s any more: delete the line", e.Rule, e.Subject),
			})
		}
	}
	return sorted(left)
}
