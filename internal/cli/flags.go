package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span is a duration as users give it on the command line, also in days of 24 hours.
type Span time.Duration

// String returns the duration as text; "" for none.
func (s *Span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Set reads 30m, 2h, 1d or 1d12h.
func (s *Span) Set(text string) error {
	const day = 24 * time.Hour
	wrong := errors.New("want a number and a unit of s, m, h or d, such as 30m, 2h or 1d")
	days, rest, has := strings.Cut(text, "d")
	var sum time.Duration
	if has {
		n, err := strconv.ParseUint(days, 10, 15)
		if err != nil {
			return wrong
		}
		sum, text = time.Duration(n)*day, rest
	}
	if text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return wrong
		}
		sum += d
	} else if !has {
		return wrong
	}
	*s = Span(sum)
	return nil
}

// Type returns the name of the type in the help.
func (s *Span) Type() string { return "duration" }

// CheckOpening rejects a time for which a pool cannot be open outside its maintenance windows; 0 ends an opening.
func CheckOpening(d time.Duration) error {
	if d != 0 && d < time.Minute {
		return fmt.Errorf("--open-for %s: want a minute or more, such as 2h, or 0 to end it", d)
	}
	return nil
}

// ParseUntil reads the end of a pause: a time such as 2026-11-30T08:00:00Z, or a duration from now such as 2h or 3d;
// empty for none.
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

// The flag of the commands that check a repository without its cluster.
const (
	LargeFilesFlag  = "large-files"
	LargeFilesUsage = "allow files that are too large for a MachineConfig: the controller has --content-registry, or " +
		"machine-config-server reads the repository itself"
)
