package linux

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// storePath is the one file of the store: a line of JSON, an index, and all contents behind it.
const storePath = host.StateDir + "/replaced"

// Store keeps what an update replaces in one file, so that it takes one flush however much that is. It implements
// host.Store.
type Store struct{ root *Root }

// pack is the index of that file.
type pack struct {
	// Contents in the order in which they lie in the file.
	Contents []packed
	// Labels of files by path, and of those that others than root could change, the user who could.
	Labels map[string]label
	Users  map[string]int `json:",omitempty"`

	// blob is everything behind the index, and where finds contents in it.
	blob  []byte
	where map[host.Digest][]byte
	// looked are the paths of which Labels has all that there is.
	looked map[string]bool
}

// packed is one of the contents.
type packed struct {
	Digest host.Digest
	Size   int
}

// Keep implements host.Store.
func (s Store) Keep(old []host.Old) error {
	p := &pack{Labels: map[string]label{}, Users: map[string]int{}, looked: map[string]bool{}}
	var parts [][]byte
	size := 0
	known := map[host.Digest]bool{"": true, host.DigestOf(nil): true}
	for _, o := range old {
		if o.Path != "" {
			contents, l, uid, err := s.root.readLabelled(o.Path, s.root.most)
			if err != nil {
				return err
			}
			o.Contents, p.looked[o.Path] = contents, true
			if len(l) > 0 {
				p.Labels[o.Path] = l
			}
			if len(l) > 0 && uid != 0 {
				p.Users[o.Path] = uid
			}
		}
		if d := host.DigestOf(o.Contents); d != o.Digest {
			return fmt.Errorf("%s has changed since it was looked at", o.Path)
		}
		if !known[o.Digest] {
			known[o.Digest] = true
			p.Contents = append(p.Contents, packed{o.Digest, len(o.Contents)})
			parts, size = append(parts, o.Contents), size+len(o.Contents)
		}
	}
	if err := s.Sweep(); err != nil {
		return err
	}
	if len(p.Contents) > 0 || len(p.Labels) > 0 {
		index, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if err := stateDir(s.root); err != nil {
			return err
		}
		whole := append(append(make([]byte, 0, len(index)+1+size), index...), '\n')
		for _, part := range parts {
			whole = append(whole, part...)
		}
		if err := s.root.write(storePath, privateFile, whole, true); err != nil { // the journal is in the same directory
			return err
		}
		p.blob = whole[len(index)+1:]
	}
	s.root.kept = p
	return nil
}

// Get implements host.Store. Contents that do not match their digest are an error: a disk has lied.
func (s Store) Get(d host.Digest) ([]byte, error) {
	p, err := s.root.packed()
	if err != nil {
		return nil, err
	}
	contents, ok := p.find(d)
	if !ok {
		return nil, fmt.Errorf("contents %s are not in %s: %w", d.Short(), storePath, fs.ErrNotExist)
	}
	if host.DigestOf(contents) != d {
		return nil, fmt.Errorf("%s is damaged: contents %s do not match their name", storePath, d.Short())
	}
	return contents, nil
}

// Sweep implements host.Store. What waits for a rename goes too. Nothing of that has to be durable: the next Keep does it
// again.
func (s Store) Sweep() error {
	s.root.kept = nil
	a, err := s.root.at(storePath)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer a.close()
	for _, left := range []at{a, a.beside(temporary(a.name)), a.beside(temporary(path.Base(journalPath)))} {
		if err := left.remove(0); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// packed reads the store, once; one that is not there is empty.
func (d *disk) packed() (*pack, error) {
	if d.kept != nil {
		return d.kept, nil
	}
	text, err := readOwn(d.tree, storePath)
	if err != nil && !gone(err) {
		return nil, fmt.Errorf("reading what the update replaced: %w", err)
	}
	p := &pack{}
	if err == nil {
		index, blob, _ := bytes.Cut(text, []byte("\n"))
		if err := json.Unmarshal(index, p); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w", storePath, err)
		}
		p.blob = blob
	}
	d.kept = p
	return p, nil
}

// find cuts contents out of the blob.
func (p *pack) find(d host.Digest) ([]byte, bool) {
	if p.where == nil {
		p.where = map[host.Digest][]byte{}
		rest := p.blob
		for _, c := range p.Contents {
			n := min(max(c.Size, 0), len(rest))
			p.where[c.Digest], rest = rest[:n:n], rest[n:]
		}
	}
	contents, ok := p.where[d]
	return contents, ok
}
