package files

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// privateFile is a file that only root may read.
var privateFile = host.Entry{Kind: host.File, Mode: 0o600}

// Journal is the journal of the current update, in one file. Journal implements host.Journal.
type Journal struct{ disk *disk }

// Journal returns the machine's journal.
func (r *Root) Journal() Journal { return Journal{r.disk} }

const journalPath = host.StateDir + "/journal.json"

// Load implements host.Journal.
func (j Journal) Load() (*host.Record, error) {
	text, err := j.disk.readOwn(journalPath)
	if IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rec host.Record
	if err := json.Unmarshal(text, &rec); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; compare the node with its config, then remove the file", journalPath,
			err)
	}
	return &rec, nil
}

// Save implements host.Journal.
func (j Journal) Save(rec host.Record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := j.disk.makeStateDir(); err != nil {
		return err
	}
	return j.disk.write(journalPath, privateFile, text, false)
}

// Clear implements host.Journal.
func (j Journal) Clear() error { return j.disk.remove(journalPath, false) }

// storePath is the file of the store: an index as a line of JSON, followed by all contents.
const storePath = host.StateDir + "/replaced"

// Store stores the files that an update replaces in one file, so that one flush makes them durable. Store implements
// host.Store.
type Store struct{ disk *disk }

// Store returns the machine's store.
func (r *Root) Store() Store { return Store{r.disk} }

// storeFile is the content of the store.
type storeFile struct {
	// Contents in the order of the file.
	Contents []storedContents
	// Labels of files by path, and the owner of each labelled file that root does not own.
	Labels map[string]label
	Users  map[string]int `json:",omitempty"`
	// Originals are the replaced files by path.
	Originals map[string]original `json:",omitempty"`

	// blob is the data after the index. where has the position of each content in blob, by digest.
	blob  []byte
	where map[host.Digest][]byte
	// labelled are the paths whose labels were read.
	labelled map[string]bool
}

// storedContents is the index entry of one content.
type storedContents struct {
	Digest host.Digest
	Size   int
}

// Keep implements host.Store.
func (s Store) Keep(old []host.Old) error {
	p := &storeFile{
		Labels: map[string]label{}, Users: map[string]int{}, Originals: map[string]original{},
		labelled: map[string]bool{},
	}
	var parts [][]byte
	known := map[host.Digest]bool{"": true, host.DigestOf(nil): true}
	for _, o := range old {
		contents := o.Contents
		if o.Path != "" {
			f, err := s.disk.readOriginal(o)
			if err != nil {
				return err
			}
			p.add(o, f)
			contents = f.contents
		}
		if o.Downloaded {
			continue
		}
		if d := host.DigestOf(contents); d != o.Digest {
			return fmt.Errorf("%s has changed since the observation", o.Path)
		}
		if !known[o.Digest] {
			known[o.Digest] = true
			p.Contents = append(p.Contents, storedContents{o.Digest, len(contents)})
			parts = append(parts, contents)
		}
	}
	if err := s.Sweep(); err != nil {
		return err
	}
	if len(p.Contents) > 0 || len(p.Labels) > 0 || len(p.Originals) > 0 {
		blob, err := s.disk.writeIndexed(p, parts)
		if err != nil {
			return err
		}
		p.blob = blob
	}
	s.disk.store = p
	return nil
}

// readOriginal reads a file that an update replaces. Downloaded contents are not read.
func (d *disk) readOriginal(o host.Old) (replacedFile, error) {
	if !o.Downloaded {
		return d.readReplaced(o.Path, d.maxRead)
	}
	is, err := d.Stat(o.Path)
	if err == nil && is.Digest != o.Digest {
		err = fmt.Errorf("%s has changed since the observation", o.Path)
	}
	if err != nil {
		return replacedFile{}, err
	}
	return d.readReplaced(o.Path, 0)
}

// add adds a replaced file, without its contents.
func (p *storeFile) add(o host.Old, f replacedFile) {
	if f.was.Entry.Kind == host.File {
		f.was.Entry.Digest = o.Digest
		p.Originals[o.Path] = f.was
	}
	p.labelled[o.Path] = true
	if len(f.label) == 0 {
		return
	}
	p.Labels[o.Path] = f.label
	if f.uid != 0 {
		p.Users[o.Path] = f.uid
	}
}

// writeIndexed writes the index of the store, and all contents after the index, which it returns as one.
func (d *disk) writeIndexed(p *storeFile, parts [][]byte) (blob []byte, _ error) {
	index, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	if err := d.makeStateDir(); err != nil {
		return nil, err
	}
	whole := slices.Concat(slices.Concat([][]byte{index, []byte("\n")}, parts)...)
	// The file of the store need not be durable at once, because the journal is in the same directory.
	return whole[len(index)+1:], d.write(storePath, privateFile, whole, true)
}

// Get implements host.Store. Contents that do not match their digest are an error. Errors have no digest, because they
// reach the Node, and a short secret can be guessed from its digest.
func (s Store) Get(d host.Digest) ([]byte, error) {
	p, err := s.disk.loadStore()
	if err != nil {
		return nil, err
	}
	contents, ok := p.find(d)
	if !ok {
		return nil, fmt.Errorf("reading %s: the contents are missing: %w", storePath, fs.ErrNotExist)
	}
	if host.DigestOf(contents) != d {
		return nil, fmt.Errorf("%s is damaged: contents do not match their digest", storePath)
	}
	return contents, nil
}

// Sweep implements host.Store. Sweep also removes temporary files. The removal need not be durable, because the next
// Keep sweeps again.
func (s Store) Sweep() error {
	s.disk.store = nil
	a, err := s.disk.at(storePath)
	if IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer a.close()
	for _, left := range []openName{a, a.sibling(temporary(a.name)), a.sibling(temporary(path.Base(journalPath)))} {
		if err := left.remove(0); err != nil && !IsAbsent(err) {
			return err
		}
	}
	return nil
}

// loadStore reads the store once. A store without a file is empty.
func (d *disk) loadStore() (*storeFile, error) {
	if d.store != nil {
		return d.store, nil
	}
	text, err := d.readOwn(storePath)
	if err != nil && !IsAbsent(err) {
		return nil, fmt.Errorf("reading what the update replaced: %w", err)
	}
	p := &storeFile{}
	if err == nil {
		index, blob, _ := bytes.Cut(text, []byte("\n"))
		if err := json.Unmarshal(index, p); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w", storePath, err)
		}
		p.blob = blob
	}
	d.store = p
	return p, nil
}

// find returns contents by their digest.
func (p *storeFile) find(d host.Digest) ([]byte, bool) {
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
