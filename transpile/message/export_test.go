package message

// Known reports whether the table has a message.
func Known(text string) bool {
	_, ok := table[text]
	return ok
}
