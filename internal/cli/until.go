package cli

import (
	"fmt"
	"time"
)

// ParseUntil reads the end of a pause: a time such as 2026-11-30T08:00:00Z, or a duration from now such as 2h or 3d. An
// empty text means that the pause has no end.
func ParseUntil(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		var span Span
		if err := span.Set(text); err != nil {
			return time.Time{}, fmt.Errorf("--until %q: want a time such as 2026-11-30T08:00:00Z or "+
				"2026-11-30T08:00:00+01:00, or a duration from now such as 2h or 3d", text)
		}
		at = now.Add(time.Duration(span))
	}
	if !at.After(now) {
		return time.Time{}, fmt.Errorf("--until %s is not in the future", text)
	}
	return at.Truncate(time.Second), nil
}
