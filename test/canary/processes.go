package canary

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Processes records the arguments and the environment of all processes that descend from this one, as long as it runs.
// It looks often, but a process that ends between two looks is missed.
type Processes struct {
	root, proc string
	stop       chan struct{}
	done       sync.WaitGroup

	mu    sync.Mutex
	seen  map[string][]byte // by place
	looks int
	err   error
}

// between is the pause between two looks.
const between = 20 * time.Millisecond

// WatchProcesses begins to record. The caller ends it with Stop.
func WatchProcesses() *Processes {
	p := &Processes{
		root: strconv.Itoa(os.Getpid()), proc: "/proc", stop: make(chan struct{}),
		seen: map[string][]byte{},
	}
	p.done.Go(func() {
		tick := time.NewTicker(between)
		defer tick.Stop()
		for {
			p.look()
			select {
			case <-p.stop:
				return
			case <-tick.C:
			}
		}
	})
	return p
}

// Stop ends the recording.
func (p *Processes) Stop() {
	close(p.stop)
	p.done.Wait()
}

// AddTo searches everything that was recorded so far.
func (p *Processes) AddTo(r *Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for place, text := range p.seen {
		r.Add(place, text, "")
	}
	if p.err != nil {
		r.errs = append(r.errs, fmt.Errorf("reading processes: %w", p.err))
	}
	if p.looks == 0 || len(p.seen) == 0 {
		r.errs = append(r.errs, errors.New("no process was seen"))
	}
}

// look records what the processes have now.
func (p *Processes) look() {
	parents, err := p.parents()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looks++; err != nil {
		p.err = err
		return
	}
	for pid := range parents {
		if !descends(pid, p.root, parents) {
			continue
		}
		for _, part := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join(p.proc, pid, part))
			if err != nil || len(text) == 0 { // It has ended, or is a zombie.
				continue
			}
			name, _, _ := strings.Cut(string(text), "\x00")
			if part == "environ" {
				name = "environment"
			}
			for n := 0; ; n++ { // A process may replace itself by another program.
				place := fmt.Sprintf("process %s %s %d", pid, filepath.Base(name), n)
				if had, is := p.seen[place]; !is || bytes.Equal(had, text) {
					p.seen[place] = text
					break
				}
			}
		}
	}
}

// parents returns the parent of each process.
func (p *Processes) parents() (map[string]string, error) {
	entries, err := os.ReadDir(p.proc)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(p.proc, e.Name(), "stat"))
		if errors.Is(err, fs.ErrNotExist) || err != nil && len(stat) == 0 { // It has ended.
			continue
		}
		// PID (NAME) STATE PARENT; a name may have spaces and parentheses.
		if fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(fields) > 1 {
			out[e.Name()] = fields[1]
		}
	}
	return out, nil
}

// descends reports whether a process descends from root.
func descends(pid, root string, parents map[string]string) bool {
	for range len(parents) {
		if pid = parents[pid]; pid == root {
			return true
		}
		if pid == "" || pid == "0" {
			return false
		}
	}
	return false
}
