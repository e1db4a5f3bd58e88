package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Printer writes steps and lines. Use New or ForFile.
type Printer struct {
	w     io.Writer
	live  bool
	width func() int

	mu      sync.Mutex
	current string // the step that is shown live; empty between steps
	since   time.Time
}

// refresh is how often the live line's time moves on.
const refresh = 100 * time.Millisecond

// New returns a printer; live ones redraw the last line by terminal control codes.
func New(w io.Writer, live bool) *Printer {
	return &Printer{w: w, live: live, width: func() int { return defaultWidth }}
}

const defaultWidth = 80

// ForFile returns a printer that is live when the file is a terminal that can redraw a line.
func ForFile(f *os.File) *Printer {
	p := New(f, term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb")
	p.width = func() int {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
		return defaultWidth
	}
	return p
}

// Step runs one step and shows its name and the time it took. What the step
// returns is shown behind its name. A step that fails leaves a line that says so;
// its error is the caller's to show.
func (p *Printer) Step(name string, do func() (note string, err error)) error {
	p.begin(name)
	note, err := do()
	mark := "✓"
	if err != nil {
		mark, note = "✗", ""
	}
	p.end(fmt.Sprintf("%s %s%s", mark, name, behind(note)))
	return err
}

func behind(note string) string {
	if note == "" {
		return ""
	}
	return ": " + note
}

// Line prints one line, or several, above the live one.
func (p *Printer) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(p.w, text)
	p.draw()
}

func (p *Printer) begin(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.since = name, time.Now()
	if p.live {
		p.draw()
		go p.tick(name, p.since)
	}
}

// tick redraws until the step that it was started for is over.
func (p *Printer) tick(name string, since time.Time) {
	for range time.Tick(refresh) {
		p.mu.Lock()
		over := p.current != name || p.since != since
		if !over {
			p.clear()
			p.draw()
		}
		p.mu.Unlock()
		if over {
			return
		}
	}
}

func (p *Printer) end(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.w, "%s %s\n", pad(text), took(time.Since(p.since)))
	p.current = ""
}

// column is where the times stand below each other.
const column = 64

func pad(text string) string {
	return text + strings.Repeat(" ", max(0, column-len([]rune(text))))
}

func took(d time.Duration) string { return fmt.Sprintf("%5.1f s", d.Seconds()) }

func (p *Printer) clear() {
	if p.live && p.current != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *Printer) draw() {
	if !p.live || p.current == "" {
		return
	}
	line := []rune(fmt.Sprintf("… %s %s", p.current, took(time.Since(p.since))))
	// A line that wraps cannot be redrawn.
	fmt.Fprint(p.w, string(line[:min(len(line), max(1, p.width()-1))]))
}
