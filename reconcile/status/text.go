package status

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of texts, in bytes. The API refuses a condition's message beyond 32768.
const (
	mostMessage = 32 << 10
	mostReason  = 2000 // of one node
	mostSubject = 256
)

// list joins texts, and says how many it left out where the bound would be passed. At least the first stays, cut.
func list(texts []string, separator string, most int) string {
	whole := strings.Join(texts, separator)
	if len(whole) <= most {
		return whole
	}
	const room = len("… and 1234567 more") + 8
	var b strings.Builder
	for i, text := range texts {
		if i == 0 {
			text = cut(text, most-room-len(separator))
		}
		if b.Len()+len(separator)+len(text)+room > most {
			fmt.Fprintf(&b, "%s… and %d more", separator, len(texts)-i)
			break
		}
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(text)
	}
	return b.String()
}

// cut shortens a text to at most that many bytes, between two runes, and shows that it did.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	const mark = "…"
	end := max(0, most-len(mark))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// message bounds an error's text; where it has many lines, whole lines are left out and counted.
func message(text string) string {
	return list(strings.Split(strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD"), "\n"), "\n", mostMessage)
}
