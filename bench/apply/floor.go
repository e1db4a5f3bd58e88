package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// floor is a way to write files that differ and to do nothing else.
type floor struct {
	name string
	// stamps are written too, for files that are new.
	stamps bool
	// each file is synced before its rename.
	each bool
	// end makes all of it durable.
	end func(root string, files, dirs []string) error
}

var floors = []floor{
	{name: "batched", stamps: true, end: func(root string, _, _ []string) error { return syncfs(root) }},
	{name: "batched, no stamps", end: func(root string, _, _ []string) error { return syncfs(root) }},
	{name: "side by side", stamps: true, end: func(_ string, files, dirs []string) error { return sideBySide(append(files, dirs...)) }},
	{name: "one by one", stamps: true, each: true, end: func(_ string, _, dirs []string) error { return sideBySide(dirs) }},
}

// floor measures it on a new directory that is in the state before.
func (s state) floor(b bench, f floor, run int) (measure.Sample, error) {
	root := filepath.Join(b.dir, fmt.Sprintf("%s-%d", f.name, run))
	var files, dirs []string
	var contents [][]byte
	add := func(p string, text []byte) error {
		p = filepath.Join(root, p)
		if dir := filepath.Dir(p); len(dirs) == 0 || dirs[len(dirs)-1] != dir {
			dirs = append(dirs, dir)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		files, contents = append(files, p), append(contents, text)
		return nil
	}
	var bad error
	for i := range b.n {
		bad = errors.Join(bad, add(b.path(i), b.contents(i, s.to)))
	}
	for i := 0; s.from == 0 && f.stamps && i < b.n; i++ {
		bad = errors.Join(bad, add(host.NoOrigDir+b.path(i)+".mcdnoorig", nil))
	}
	for i := 0; s.from > 0 && i < b.n; i++ {
		bad = errors.Join(bad, os.WriteFile(files[i], b.contents(i, s.from), 0o600))
	}
	if bad = errors.Join(bad, syncfs(root)); bad != nil {
		return measure.Sample{}, bad
	}
	return measure.Of(func() error {
		for i, p := range files {
			if is, err := os.ReadFile(p); err == nil && bytes.Equal(is, contents[i]) {
				continue
			}
			if err := replace(p, contents[i], f.each); err != nil {
				return err
			}
		}
		return f.end(root, files, dirs)
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

// atOnce is how many files are synced at a time.
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
