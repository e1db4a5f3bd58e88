package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// floor is a way to write the files that differ, without anything else.
type floor struct {
	name string
	// stamps: the floor also writes stamps for new files.
	stamps bool
	// each: the floor syncs each file before its rename.
	each bool
	// end makes all writes durable.
	end func(root string, files, dirs []string) error
}

var floors = []floor{
	{name: "batched", stamps: true, end: func(root string, _, _ []string) error { return syncfs(root) }},
	{name: "batched, no stamps", end: func(root string, _, _ []string) error { return syncfs(root) }},
	{name: "side by side", stamps: true, end: func(_ string, files, dirs []string) error { return sideBySide(append(files, dirs...)) }},
	{name: "one by one", stamps: true, each: true, end: func(_ string, _, dirs []string) error { return sideBySide(dirs) }},
}

// work is the data that a floor writes: files in directories, parents first.
type work struct {
	root        string
	dirs, files []string
	contents    [][]byte
}

func (w *work) add(p string, text []byte) {
	w.files, w.contents = append(w.files, filepath.Join(w.root, p)), append(w.contents, text)
	var above []string
	for dir := filepath.Join(w.root, filepath.Dir(p)); dir != w.root && !slices.Contains(w.dirs,
		dir); dir = filepath.Dir(dir) {
		above = append(above, dir)
	}
	slices.Reverse(above)
	w.dirs = append(w.dirs, above...)
}

// makeDirs creates the missing directories.
func (w *work) makeDirs() error {
	for _, dir := range w.dirs {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// floor measures f on a new directory in the state before the update. A floor that writes new files also creates their
// directories.
func (s state) floor(b bench, f floor, run int) (measure.Sample, error) {
	w := &work{root: filepath.Join(b.dir, fmt.Sprintf("%s-%d", f.name, run))}
	for i := range b.n {
		w.add(b.path(i), b.contents(i, s.to))
	}
	for i := 0; s.from == 0 && f.stamps && i < b.n; i++ {
		w.add(host.NoOrigDir+b.path(i)+".mcdnoorig", nil)
	}
	bad := os.MkdirAll(w.root, 0o755)
	if s.from > 0 {
		bad = errors.Join(bad, w.makeDirs())
	}
	for i := 0; s.from > 0 && i < b.n; i++ {
		bad = errors.Join(bad, os.WriteFile(w.files[i], b.contents(i, s.from), 0o600))
	}
	if bad = errors.Join(bad, syncfs(w.root)); bad != nil {
		return measure.Sample{}, bad
	}
	return measure.Of(func() error {
		if s.from == 0 {
			if err := w.makeDirs(); err != nil {
				return err
			}
		}
		for i, p := range w.files {
			if is, err := os.ReadFile(p); err == nil && bytes.Equal(is, w.contents[i]) {
				continue
			}
			if err := replace(p, w.contents[i], f.each); err != nil {
				return err
			}
		}
		return f.end(w.root, w.files, append(w.dirs, w.root))
	})
}

// replace writes a file beside its place and renames it.
func replace(p string, contents []byte, sync bool) error {
	f, err := os.OpenFile(p+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(contents)
	if sync && err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(p+".new", p)
}

// atOnce is how many files are synced at the same time.
const atOnce = 16

func sideBySide(paths []string) error {
	var wait sync.WaitGroup
	todo, bad := make(chan string), make([]error, atOnce)
	for w := range atOnce {
		wait.Go(func() {
			for p := range todo {
				bad[w] = errors.Join(bad[w], fsync(p))
			}
		})
	}
	for _, p := range paths {
		todo <- p
	}
	close(todo)
	wait.Wait()
	return errors.Join(bad...)
}

func fsync(p string) error {
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func syncfs(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
