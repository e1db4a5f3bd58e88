//go:build !windows

package cli

// interpretsEscapes reports whether a terminal interprets escape sequences.
func interpretsEscapes(int) bool { return true }
