package transpile

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Shelf is a memory that outlives the process. It is asked by content, so that it is safe to lose, and what it returns is
// checked, so that it is safe to damage. Entries hold what documents say. Different builds of the program must not share
// one: the same document may mean something else to them.
type Shelf interface {
	// Get returns what was put under a key.
	Get(key string) ([]byte, bool)
	// Put keeps a value, or does not.
	Put(key string, value []byte)
}

// shelfFormat names the form of entries; it is part of every key.
const shelfFormat = "document 1"

// shelved is a documentEntry as it stands on the shelf.
type shelved struct {
	Locals           []shelvedLocal
	Pool, Name, Role string
	File, Digest     string
	// Ignition is spec.config as bytes, as JSON within JSON would be written anew.
	Ignition []byte
	Spec     mcfgv1.MachineConfigSpec
	Files    []origin.File
	// At has a line for each place: the path, the file's number, line and column.
	At       string
	Findings []origin.Finding
}

type shelvedLocal struct {
	Path  string
	Files []origin.File
}

// shelve writes an entry, with a digest of it and of its key before it.
func shelve(key string, e documentEntry) ([]byte, error) {
	f := e.fragment
	s := shelved{
		Pool: f.Pool, Name: f.Name, Role: roleOf(f), File: f.File, Digest: f.Digest,
		Ignition: f.MachineConfig.Spec.Config.Raw, Spec: f.MachineConfig.Spec, Files: f.Origin.Files, Findings: e.findings,
	}
	s.Spec.Config.Raw = nil
	for _, l := range e.locals {
		s.Locals = append(s.Locals, shelvedLocal{l.path, l.files})
	}
	s.At = writePlaces(f.Origin)
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing an entry of the shelf: %w", err)
	}
	sum := entrySum(key, raw)
	return append(sum[:], raw...), nil
}

func entrySum(key string, raw []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(key))
	h.Write(raw)
	return [sha256.Size]byte(h.Sum(nil))
}

// unshelve reads an entry. What is damaged, or another key's, is as if it were not there.
func unshelve(key string, value []byte) (documentEntry, bool) {
	if len(value) < sha256.Size {
		return documentEntry{}, false
	}
	sum, raw := value[:sha256.Size], value[sha256.Size:]
	if want := entrySum(key, raw); !bytes.Equal(sum, want[:]) {
		return documentEntry{}, false
	}
	var s shelved
	if err := json.Unmarshal(raw, &s); err != nil {
		return documentEntry{}, false
	}
	e := documentEntry{findings: s.Findings}
	for _, l := range s.Locals {
		e.locals = append(e.locals, local{l.Path, l.Files})
	}
	places, ok := readPlaces(s.At)
	if !ok {
		return documentEntry{}, false
	}
	s.Spec.Config.Raw = s.Ignition
	e.fragment = Fragment{
		Pool: s.Pool, Name: s.Name, MachineConfig: machineConfig(s.Name, s.Role, s.Spec), Digest: s.Digest, File: s.File,
		Origin: origin.Map{Files: s.Files, At: places},
	}
	return e, true
}

// writePlaces writes a map's places: the files, one a line, an empty line, and the places.
func writePlaces(m origin.Map) string {
	number := map[string]int{}
	var files, places strings.Builder
	for _, p := range slices.Sorted(maps.Keys(m.At)) {
		at := m.At[p]
		n, ok := number[at.File]
		if !ok {
			n = len(number)
			number[at.File] = n
			files.WriteString(strconv.Quote(at.File) + "\n")
		}
		places.WriteString(strconv.Quote(p) + " " + strconv.Itoa(n) + " " + strconv.Itoa(at.Line) + " " + strconv.Itoa(at.Column) + "\n")
	}
	return files.String() + "\n" + places.String()
}

func readPlaces(text string) (map[string]origin.Pos, bool) {
	head, body, ok := strings.Cut(text, "\n\n")
	if !ok {
		return nil, text == "\n" // of a map without places
	}
	var files []string
	for _, line := range strings.Split(head, "\n") {
		file, err := strconv.Unquote(line)
		if err != nil {
			return nil, false
		}
		files = append(files, file)
	}
	out := make(map[string]origin.Pos, strings.Count(body, "\n"))
	for line := range strings.Lines(body) {
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, false
		}
		path, err := strconv.Unquote(quoted)
		numbers := strings.Fields(line[len(quoted):])
		if err != nil || len(numbers) != 3 {
			return nil, false
		}
		var n [3]int
		for i, word := range numbers {
			if n[i], err = strconv.Atoi(word); err != nil || n[i] < 0 {
				return nil, false
			}
		}
		if n[0] >= len(files) {
			return nil, false
		}
		out[path] = origin.Pos{File: files[n[0]], Line: n[1], Column: n[2]}
	}
	return out, true
}
