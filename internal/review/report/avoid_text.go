package report

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/review"
)

// ruleHint names below an item the rule that would avoid its reboot, or is "".
func ruleHint(r *review.DisruptionRule) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("a rule for %s avoids this reboot: %s", r.Name(), actionWords(r.Actions))
}

// avoidTitle says what to do with the YAML.
func avoidTitle(a *review.AvoidReboots) string {
	if a.File == "" {
		return "to avoid reboots, create " + review.NewPolicyFile
	}
	return "to avoid reboots, add to the lists in spec.nodeDisruptionPolicy of " + a.File
}

// stillRebootText names the pools that reboot in spite of the rules, or is "".
func stillRebootText(a *review.AvoidReboots) string {
	if len(a.StillReboot) == 0 {
		return ""
	}
	return "even so, other changes of this review reboot " + enumerate(a.StillReboot)
}

func writeAvoid(a *review.AvoidReboots, b *strings.Builder, s Style) {
	if a == nil {
		return
	}
	fmt.Fprintf(b, "%s\n%s", s.bold(safetext.Line(avoidTitle(a))), review.Indented(a.YAML, "  "))
	if still := stillRebootText(a); still != "" {
		b.WriteString(safetext.Line(still) + "\n")
	}
	b.WriteString("\n")
}

// avoidMarkdown returns a folded section with the rules, or a sentence that names `bunsen diff` if it does not fit into
// room.
func avoidMarkdown(a *review.AvoidReboots, room int) string {
	if a == nil {
		return ""
	}
	still := ""
	if text := stillRebootText(a); text != "" {
		still = prose(capital(text)) + ".\n\n"
	}
	summary := escape(visible(capital(avoidTitle(a))), func(r rune) bool { return odd(r) || r == '@' || r == '#' })
	text := "<details><summary>" + summary + "</summary>\n\n```yaml\n" + a.YAML + "```\n\n" + still + detailsEnd
	if len(text) > room {
		return "`bunsen diff` prints rules that avoid reboots.\n\n"
	}
	return text
}
