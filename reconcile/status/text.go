package status

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// In bytes. The API server refuses a condition message that is longer than 32768.
const (
	mostMessage = 32 << 10
	mostReason  = 2000 // the limit for the reason of one node
	mostSubject = 256
)

// list joins texts up to a limit, and says how many it omitted; never the first one, which it may shorten.
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

// cut shortens a text to so many bytes, between two runes, and marks that.
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

// message limits an error's text; of many lines it omits whole ones and says how many.
func message(text string) string {
	return list(strings.Split(strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD"), "\n"), "\n", mostMessage)
}
