package poolstate

import "strings"

// ShortLine shortens a text to one short line, for the reason of one gate.
func ShortLine(text string) string {
	const most = 400
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
