package poolstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// MaxNamed is how many nodes a message names.
const MaxNamed = 3

// FormatTime formats a point in time for users, in UTC to the minute.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// FormatDeadline returns when a duration ends, with seconds if it is shorter than an hour.
func FormatDeadline(t time.Time, duration time.Duration) string {
	if duration < time.Hour {
		return t.UTC().Format("2006-01-02 15:04:05 MST")
	}
	return FormatTime(t)
}

// FormatDuration formats a duration without zeros at its end.
func FormatDuration(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "m0s")
	if text != d.String() {
		text += "m"
	}
	return strings.Replace(text, "h0m", "h", 1)
}

// JoinFirst joins the texts of the first nodes, and says how many of all were omitted.
func JoinFirst(texts []string, all int) string {
	if more := all - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// Grouped joins what is said of nodes, and names those of which the same is said together: "n0 and n1 failed v1: no
// space left on device; n2 failed v1: exit status 1". It has the first MaxNamed texts, and as many names before each.
// Both lists have the same length.
func Grouped(names, texts []string) string {
	var order []string
	of := map[string][]string{}
	for i, text := range texts {
		if of[text] == nil {
			order = append(order, text)
		}
		of[text] = append(of[text], names[i])
	}
	var out []string
	left := len(names)
	for _, text := range order[:min(len(order), MaxNamed)] {
		nodes := of[text]
		left -= len(nodes)
		if rest, is := strings.CutPrefix(text, "is "); is && len(nodes) > 1 {
			text = "are " + rest
		}
		out = append(out, together(nodes)+" "+text)
	}
	return JoinFirst(out, len(out)+left)
}

func together(names []string) string {
	switch more := len(names) - MaxNamed; {
	case len(names) == 1:
		return names[0]
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:MaxNamed], ", "), more)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Quote returns a colon and the first line of a problem, with at most the given number of runes; empty for no problem.
func Quote(problem string, most int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(problem), "\n")
	if line == "" {
		return ""
	}
	return ": " + Shorten(line, most)
}

// Shorten removes the middle of a text with more runes, because the reasons of daemons begin with the action and end
// with the cause. It cuts between words, unless a word is very long.
func Shorten(text string, most int) string {
	const longWord = 40
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	tail := most / 3
	head, end := string(runes[:most-tail-3]), string(runes[len(runes)-tail:])
	if at := strings.LastIndexByte(head, ' '); at > 0 && runes[most-tail-3] != ' ' && len(head)-at < longWord {
		head = head[:at]
	}
	if at := strings.IndexByte(end, ' '); at >= 0 && runes[len(runes)-tail-1] != ' ' && at < longWord {
		end = end[at:]
	}
	return strings.TrimSpace(head) + " … " + strings.TrimSpace(end)
}

// SilentBlock names nodes whose daemons have stopped reporting, the first with the time of the last heartbeat. That
// does not delay the rollout, which uses the last reports.
func SilentBlock(silent map[string]time.Time) Block {
	names := slices.Sorted(maps.Keys(silent))
	var texts []string
	for _, name := range names[:min(len(names), MaxNamed)] {
		texts = append(texts, fmt.Sprintf("%s since %s", name, FormatTime(silent[name])))
	}
	if more := len(names) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return Block{Cause: CauseSilent, Reason: "no heartbeat of the machine-config-daemon of " + strings.Join(texts,
		", ")}
}
