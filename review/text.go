package review

import (
	"fmt"
	"strings"
)

// Style colours the text; the zero value leaves it plain.
type Style struct {
	// Colour turns ANSI colours on.
	Colour bool
}

// Text prints the comparison for people: a pool a section, a change an item, and the sum as its last line.
func (c Comparison) Text(s Style) string {
	var b strings.Builder
	same := []string{}
	total := 0
	for _, p := range c.Pools {
		if len(p.Items) == 0 && p.From == p.To {
			same = append(same, p.Pool)
			continue
		}
		total += len(p.Items)
		p.text(&b, s)
	}
	if len(c.Policy) > 0 {
		fmt.Fprintf(&b, "%s\n", s.bold("disruption policy: what later changes cost"))
		for _, line := range c.Policy {
			fmt.Fprintf(&b, "~ %s\n", line)
		}
		b.WriteString("\n")
	}
	if len(same) > 0 {
		fmt.Fprintf(&b, "unchanged: %s\n", strings.Join(same, ", "))
	}
	switch changed := len(c.Pools) - len(same); {
	case len(c.Pools) == 0:
		b.WriteString("No pools on either side.\n")
	case changed == 0:
		b.WriteString("No rendered change: nothing will be rolled out.\n")
	default:
		fmt.Fprintf(&b, "%s in %s.\n", count(total, "change"), count(changed, "pool"))
	}
	return b.String()
}

func (p PoolChange) text(b *strings.Builder, s Style) {
	fmt.Fprintf(b, "%s\n", s.bold(fmt.Sprintf("pool %s: %s → %s", p.Pool, nameOr(p.From, "(new)"), nameOr(p.To, "(gone)"))))
	fmt.Fprintf(b, "disruption: %s%s\n", p.Disruption, listed(p.Actions))
	for _, r := range p.Refused {
		fmt.Fprintf(b, "%s\n", s.red("! running nodes cannot take "+r))
	}
	for _, it := range p.Items {
		sign := map[string]string{"added": "+", "removed": "-"}[it.Change]
		if sign == "" {
			sign = "~"
		}
		fmt.Fprintf(b, "\n%s %s", sign, it.Kind)
		if it.Path != "" {
			fmt.Fprintf(b, " %s", it.Path)
		}
		fmt.Fprintf(b, " · %s", plainActions(it.Actions))
		if it.Why != "" {
			fmt.Fprintf(b, " (%s)", it.Why)
		}
		if it.Origin != "" {
			fmt.Fprintf(b, " · from %s", it.Origin)
		}
		b.WriteString("\n")
		for _, line := range strings.SplitAfter(it.Diff, "\n") {
			if line != "" {
				b.WriteString("  " + s.line(line))
			}
		}
	}
	b.WriteString("\n")
}

func nameOr(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

func listed(actions []Action) string {
	if len(actions) == 0 {
		return ""
	}
	return " (" + plainActions(actions) + ")"
}

// plainActions writes actions as words: `restart chronyd.service`, `no action`.
func plainActions(actions []Action) string {
	words := make([]string, 0, len(actions))
	for _, a := range actions {
		switch a.Type {
		case "None":
			words = append(words, "no action")
		case "DaemonReload":
			words = append(words, "daemon-reload")
		case "Reboot":
			words = append(words, "drain + reboot")
		default:
			words = append(words, strings.TrimSpace(strings.ToLower(a.Type)+" "+a.Service))
		}
	}
	if len(words) == 0 {
		return "no action"
	}
	return strings.Join(words, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (s Style) bold(t string) string { return s.wrap("1", t) }
func (s Style) red(t string) string  { return s.wrap("31", t) }

// line colours one line of a diff by its first character.
func (s Style) line(l string) string {
	text, nl := strings.CutSuffix(l, "\n")
	switch {
	case strings.HasPrefix(text, "+"):
		text = s.wrap("32", text)
	case strings.HasPrefix(text, "-"):
		text = s.wrap("31", text)
	case strings.HasPrefix(text, "@@"):
		text = s.wrap("36", text)
	}
	if nl {
		text += "\n"
	}
	return text
}

func (s Style) wrap(code, t string) string {
	if !s.Colour {
		return t
	}
	return "\x1b[" + code + "m" + t + "\x1b[0m"
}
