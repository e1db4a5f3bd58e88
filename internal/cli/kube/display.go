package kube

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// Display shows a live status: it redraws the screen of a terminal, or prints a line for each change.
type Display struct {
	w io.Writer
	// nil if there is no terminal
	size   func() terminal.Size
	colour bool

	drawn     time.Time
	drawnSize terminal.Size
	last      string
	// the last state, and the message about a problem that has occurred since
	shown   *inspect.Overview
	message string
	open    bool
}

// NewDisplay returns a display on standard output.
func NewDisplay(w io.Writer) *Display {
	d := &Display{w: w, colour: cli.Colour()}
	if fd := int(os.Stdout.Fd()); cli.Screen() {
		d.size = func() terminal.Size {
			width, height, err := term.GetSize(fd)
			if err != nil || width < 1 || height < 1 {
				return terminal.Size{Width: 80, Height: 24}
			}
			return terminal.Size{Width: width, Height: height}
		}
	}
	return d
}

// Escape sequences for terminals. openScreen switches to another screen without a cursor and without wrapping, and
// closeScreen switches back. The next two begin and end a frame, so that terminals that support this show the frame at
// once.
const (
	openScreen  = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	closeScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	beginFrame  = "\x1b[?2026h\x1b[H"
	endFrame    = "\x1b[J\x1b[?2026l"
	clearLine   = "\x1b[2K"
)

// isDue reports whether to redraw an unchanged screen: a second has passed, or the size of the terminal has changed.
func (d *Display) isDue(now time.Time) bool {
	return d.size != nil && (now.Sub(d.drawn) >= time.Second || d.size() != d.drawnSize)
}

func (d *Display) show(o inspect.Overview, now time.Time) error {
	if d.size == nil {
		var before *inspect.Status
		if d.shown != nil {
			before = &d.shown.Status
		}
		lines := o.Status.Changes(before)
		if d.message != "" {
			lines = append([]string{"the cluster answers again"}, lines...)
		}
		d.shown, d.message = &o, ""
		return d.lines(lines, now)
	}
	d.shown, d.message = &o, ""
	return d.draw(now)
}

// showMessage shows a problem. On a terminal, the last status stays on the screen.
func (d *Display) showMessage(text string) error {
	now := time.Now()
	if d.size == nil {
		if text == d.message {
			return nil
		}
		d.message = text
		return d.lines([]string{text}, now)
	}
	d.message = text
	return d.draw(now)
}

func (d *Display) lines(lines []string, now time.Time) error {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(now.UTC().Format(time.RFC3339) + " " + safetext.Lines(strings.ReplaceAll(l, "\n", " ")) + "\n")
	}
	return d.write(b.String())
}

// draw draws the whole screen in one write, so that it does not flicker.
func (d *Display) draw(now time.Time) error {
	d.drawnSize, d.drawn = d.size(), now
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

func (d *Display) frame(now time.Time) []string {
	size := d.drawnSize
	var screen []terminal.Line
	if d.message != "" {
		for _, l := range terminal.Wrap(d.message, size.Width) {
			screen = append(screen, terminal.Line{{Text: l, Style: terminal.Bad}})
		}
		screen = append(screen, nil)
	}
	if d.shown != nil {
		screen = append(screen, d.shown.Screen(terminal.Size{Width: size.Width, Height: size.Height - len(screen)},
			now)...)
	}
	lines := make([]string, min(len(screen), size.Height))
	for i := range lines {
		lines[i] = screen[i].Cut(size.Width, d.colour)
	}
	return lines
}

// close restores the terminal, with the last status on the screen.
func (d *Display) close() {
	if !d.open {
		return
	}
	d.open = false
	lines := d.frame(d.drawn)
	_ = d.write(closeScreen + strings.Join(lines, "\n") + "\n") // The error cannot be reported, because bunsen ends.
}

func (d *Display) write(text string) error {
	if _, err := io.WriteString(d.w, text); err != nil {
		return fmt.Errorf("printing the status: %w", err)
	}
	return nil
}
