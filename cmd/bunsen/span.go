package main

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// span is a duration as people give it on the command line, also in days of 24 hours.
type span time.Duration

// String is how it is printed; empty for none.
func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Set reads 30m, 2h, 1d or 1d12h.
func (s *span) Set(text string) error {
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
	*s = span(sum)
	return nil
}

// Type is its name in the help.
func (s *span) Type() string { return "duration" }
