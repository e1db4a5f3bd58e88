package up

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress shows steps and lines, which any goroutine may report. On a terminal, progress redraws one live line. On
// another output, progress prints one line for each finished step. newProgress and newFileProgress create a progress.
type progress struct {
	w     io.Writer
	live  bool
	width func() int

	mu      sync.Mutex
	current string // current is the step in the live line. It is empty between two steps.
	since   time.Time
}

// redrawInterval is how often the live line is redrawn.
const redrawInterval = 100 * time.Millisecond

// newProgress returns a progress that writes to w. A live progress redraws its last line with terminal control codes.
func newProgress(w io.Writer, live bool) *progress {
	return &progress{w: w, live: live, width: func() int { return defaultWidth }}
}

const defaultWidth = 80

// newFileProgress returns a progress that is live if the file is a terminal that can redraw a line.
func newFileProgress(f *os.File) *progress {
	p := newProgress(f, term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb")
	p.width = func() int {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
		return defaultWidth
	}
	return p
}

// Step runs one step and shows its name, its note and the time that it took. Step marks a failed step; the caller shows
// the error.
func (p *progress) Step(name string, do func() (note string, err error)) error {
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

// Line prints one line or several lines above the live line.
func (p *progress) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(p.w, text)
	p.draw()
}

func (p *progress) begin(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.since = name, time.Now()
	if p.live {
		p.draw()
		go p.tick(name, p.since)
	}
}

// tick redraws the live line until its step has ended.
func (p *progress) tick(name string, since time.Time) {
	for range time.Tick(redrawInterval) {
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

func (p *progress) end(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.w, "%s %s\n", pad(text), took(time.Since(p.since)))
	p.current = ""
}

// column is the column in which the times of the steps begin.
const column = 64

func pad(text string) string {
	return text + strings.Repeat(" ", max(0, column-len([]rune(text))))
}

func took(d time.Duration) string { return fmt.Sprintf("%5.1f s", d.Seconds()) }

func (p *progress) clear() {
	if p.live && p.current != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *progress) draw() {
	if !p.live || p.current == "" {
		return
	}
	line := []rune(fmt.Sprintf("… %s %s", p.current, took(time.Since(p.since))))
	// The line is cut, because progress cannot redraw a line that the terminal wraps.
	fmt.Fprint(p.w, string(line[:min(len(line), max(1, p.width()-1))]))
}
