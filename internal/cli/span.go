package cli

import (
	"errors"
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
