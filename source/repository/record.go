package repository

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/bunsen-os/bunsen/source"
)

// record is the entry of the store for a key.
type record struct {
	Key     StoreKey
	Commit  source.Commit
	Digest  string
	Refused []source.Refusal

	// used is the time at which Get last returned the record's tree. It is stored as the modification time of the
	// record's file.
	used time.Time
	file string
}

// wellFormed matches digests, which are safe as the name of a folder.
var wellFormed = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// unusedAfter is after how long the store removes an unused record, for example one of a deleted GitSource.
const unusedAfter = 30 * 24 * time.Hour

func (s *Store) record(k StoreKey) string {
	h := sha256.New()
	for _, part := range []string{k.URL, k.Hash, k.Path, k.Trust} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	if k.Include != "" { // Records without Include keep the name that they had before this field existed.
		fmt.Fprintf(h, "include:%s", k.Include)
	}
	return filepath.Join(s.dir, "keys", hex.EncodeToString(h.Sum(nil))+".json")
}

// read returns a key's record. If the record cannot be decoded, ok is false, and the caller fetches the tree again.
func (s *Store) read(k StoreKey) (record, bool, error) {
	data, err := os.ReadFile(s.record(k))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, fmt.Errorf("reading the store: %w", err)
	}
	var r record
	if json.Unmarshal(data, &r) != nil || r.Key != k || !wellFormed.MatchString(r.Digest) {
		return record{}, false, nil
	}
	return r, true, nil
}

func (s *Store) write(k StoreKey, t source.Tree) error {
	t.Commit.Ref = ""
	data, err := json.MarshalIndent(record{Key: k, Commit: t.Commit, Digest: t.Digest, Refused: t.Refused}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the store: %w", err)
	}
	if err := renameio.WriteFile(s.record(k), data, 0o600); err != nil {
		return fmt.Errorf("writing the store: %w", err)
	}
	return nil
}

func (s *Store) touch(k StoreKey) error {
	now := time.Now()
	if err := os.Chtimes(s.record(k), now, now); err != nil {
		return fmt.Errorf("reading the store: %w", err)
	}
	return nil
}

// newest returns the directory of the newest tree of a repository and path; empty if there is none. Another goroutine
// may remove the directory at any time.
func (s *Store) newest(k StoreKey) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, err := s.records()
	if err != nil {
		return "" // Put reads the records again, and reports the error then.
	}
	var newest record
	for _, r := range records {
		if r.Key.URL == k.URL && r.Key.Path == k.Path && r.Digest != "" && r.used.After(newest.used) {
			newest = r
		}
	}
	if newest.Digest == "" {
		return ""
	}
	return s.tree(newest.Digest)
}

// collect removes old records and unused trees. collect keeps the newest records of each repository and path, and the
// trees that a record names.
func (s *Store) collect() error {
	records, err := s.records()
	if err != nil {
		return err
	}
	slices.SortFunc(records, func(a, b record) int {
		return cmp.Or(b.used.Compare(a.used), strings.Compare(a.file, b.file))
	})
	kept := map[[2]string]int{}
	named := map[string]bool{}
	for _, r := range records {
		of := [2]string{r.Key.URL, r.Key.Path}
		if kept[of]++; r.Digest == "" || kept[of] > s.keep || time.Since(r.used) > unusedAfter {
			if err := os.Remove(r.file); err != nil {
				return err
			}
			continue
		}
		named[filepath.Base(s.tree(r.Digest))] = true
	}
	trees, err := os.ReadDir(s.path("trees"))
	if err != nil {
		return err
	}
	for _, t := range trees {
		if !named[t.Name()] {
			if err := os.RemoveAll(filepath.Join(s.path("trees"), t.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) records() ([]record, error) {
	entries, err := os.ReadDir(s.path("keys"))
	if err != nil {
		return nil, err
	}
	var all []record
	for _, e := range entries {
		r := record{file: filepath.Join(s.path("keys"), e.Name())}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(r.file)
		if err != nil {
			return nil, err
		}
		if json.Unmarshal(data, &r) != nil || !wellFormed.MatchString(r.Digest) {
			r.Digest = "" // an empty digest causes collect to remove the record
		}
		r.used = info.ModTime()
		all = append(all, r)
	}
	return all, nil
}
