package linux

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// event is one inotify event: about a name in a directory, or about the directory itself.
type event struct {
	wd   int32
	mask uint32
	name string
}

// eventsIn parses the result of one read: whole events, each a fixed header and a name that is padded with zeros.
func eventsIn(buf []byte) (events []event) {
	for len(buf) >= unix.SizeofInotifyEvent {
		e := event{
			wd:   int32(binary.NativeEndian.Uint32(buf)), //nolint:gosec // the kernel's own type
			mask: binary.NativeEndian.Uint32(buf[4:]),
		}
		length := int(binary.NativeEndian.Uint32(buf[12:]))
		buf = buf[unix.SizeofInotifyEvent:]
		if length > len(buf) {
			return events
		}
		e.name = strings.TrimRight(string(buf[:length]), "\x00")
		buf = buf[length:]
		events = append(events, e)
	}
	return events
}
