package cli

import "golang.org/x/sys/windows"

// interpretsEscapes reports whether a terminal interprets escape sequences, which an old console of Windows does only
// on request.
func interpretsEscapes(fd int) bool {
	var mode uint32
	if err := windows.GetConsoleMode(windows.Handle(fd), &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(windows.Handle(fd), mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
