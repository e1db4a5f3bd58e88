package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/bunsen-os/bunsen/inspect"
)

// display is where a live status is shown: over itself on a terminal, else a line for each change.
type display struct {
	w io.Writer
	// size of the terminal; nil where there is none.
	size   func() inspect.Size
	colour bool

	drawn  time.Time
	asWide inspect.Size
	last   string
	// shown is the status that was shown last, and said what was in the way since.
	shown *inspect.Status
	said  string
	open  bool
}

// newDisplay is for standard output.
func newDisplay(w io.Writer) *display {
	d := &display{w: w, colour: colour()}
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		d.size = func() inspect.Size {
			width, height, err := term.GetSize(fd)
			if err != nil || width < 1 || height < 1 {
				return inspect.Size{Width: 80, Height: 24}
			}
			return inspect.Size{Width: width, Height: height}
		}
	}
	return d
}

// Sequences of terminals: another screen without a cursor and without wrapping, and back; and the ends of a frame, which
// terminals that know them show at once.
const (
	openScreen  = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	closeScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	beginFrame  = "\x1b[?2026h\x1b[H"
	endFrame    = "\x1b[J\x1b[?2026l"
	clearLine   = "\x1b[2K"
)

// due tells that the screen is to be drawn although nothing changed: time goes on, or the terminal has another size.
func (d *display) due(now time.Time) bool {
	return d.size != nil && (now.Sub(d.drawn) >= time.Second || d.size() != d.asWide)
}

// show shows a status. What was in the way is over.
func (d *display) show(s inspect.Status, now time.Time) error {
	if d.size == nil {
		lines := s.Changes(d.shown)
		if d.said != "" {
			lines = append([]string{"the cluster answers again"}, lines...)
		}
		d.shown, d.said = &s, ""
		return d.lines(lines, now)
	}
	d.shown, d.said = &s, ""
	return d.draw(now)
}

// say tells what is in the way; a terminal keeps what it showed.
func (d *display) say(text string) error {
	now := time.Now()
	if d.size == nil {
		if text == d.said {
			return nil
		}
		d.said = text
		return d.lines([]string{text}, now)
	}
	d.said = text
	return d.draw(now)
}

// lines prints changes, each with the time.
func (d *display) lines(lines []string, now time.Time) error {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(now.UTC().Format(time.RFC3339) + " " + harmless(strings.ReplaceAll(l, "\n", " ")) + "\n")
	}
	return d.write(b.String())
}

// draw draws the whole screen in one write, line over line, so that nothing flickers.
func (d *display) draw(now time.Time) error {
	d.asWide, d.drawn = d.size(), now
	lines := d.frame(now)
	text := clearLine + strings.Join(lines, "\r\n"+clearLine)
	if text == d.last {
		return nil
	}
	d.last = text
	begin := beginFrame
	if !d.open {
		begin, d.open = openScreen+begin, true
	}
	return d.write(begin + text + endFrame)
}

// frame is what fits on the terminal.
func (d *display) frame(now time.Time) []string {
	size := d.asWide
	var screen []inspect.Line
	if d.said != "" {
		for _, l := range inspect.Wrap(d.said, size.Width) {
			screen = append(screen, inspect.Line{{Text: l, Style: inspect.Bad}})
		}
		screen = append(screen, nil)
	}
	if d.shown != nil {
		screen = append(screen, d.shown.Screen(inspect.Size{Width: size.Width, Height: size.Height - len(screen)}, now)...)
	}
	lines := make([]string, min(len(screen), size.Height))
	for i := range lines {
		lines[i] = screen[i].Cut(size.Width, d.colour)
	}
	return lines
}

// close leaves the terminal as it was, with the last status on it.
func (d *display) close() {
	if !d.open {
		return
	}
	d.open = false
	lines := d.frame(d.drawn)
	_ = d.write(closeScreen + strings.Join(lines, "\n") + "\n") // there is nobody left to tell
}

func (d *display) write(text string) error {
	if _, err := io.WriteString(d.w, text); err != nil {
		return fmt.Errorf("printing the status: %w", err)
	}
	return nil
}
