package repository

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// RemoteSource is the address of a file, or the reference of an OS image, in a document.
type RemoteSource struct {
	// Address is the address, and Line the line of its key, from 1.
	Address string
	Line    int
	// IsImage: the digest is a part of the address, and there is no Hash.
	IsImage bool
	// Hash is that in the document; "" for none.
	Hash string
	// Resolved is another address that Write writes; "" for the same one.
	Resolved string
	// Gzip: the document says that the contents are compressed.
	Gzip bool
	// the address, the mapping of a file's address, and the value of its verification.hash; nil for none
	address, contents, hash *yaml.Node
}

// FindRemote returns the addresses of files and the references of images in a text, which may have several documents.
// The error names a line.
func FindRemote(text []byte) (all []RemoteSource, _ error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		find(&doc, &all)
	}
}

func find(n *yaml.Node, all *[]RemoteSource) {
	if n.Kind == yaml.MappingNode {
		for _, field := range imageFields {
			addImage(child(n, field), all)
			if path := child(n, "path"); path != nil && path.Value == "/spec/"+field { // an operation of a JSON patch
				addImage(child(n, "value"), all)
			}
		}
		if files := child(child(n, "storage"), "files"); files != nil {
			for _, f := range files.Content {
				add(child(f, "contents"), all)
			}
		}
	}
	for _, c := range n.Content {
		find(c, all)
	}
}

var imageFields = []string{"osImageURL", "baseOSExtensionsContainerImage"}

// addImage leaves out a reference with a fact of a node, which is another one on each node.
func addImage(image *yaml.Node, all *[]RemoteSource) {
	if image == nil || image.Kind != yaml.ScalarNode || image.Value == "" ||
		strings.Contains(image.Value, machineconfig.ContentFact) || strings.HasPrefix(image.Value, "ostree://") {
		return
	}
	*all = append(*all, RemoteSource{Address: image.Value, Line: image.Line, IsImage: true, address: image})
}

func add(contents *yaml.Node, all *[]RemoteSource) {
	source := child(contents, "source")
	if source == nil || !slices.ContainsFunc([]string{"https://", "http://", machineconfig.ArtifactScheme},
		func(scheme string) bool { return strings.HasPrefix(source.Value, scheme) }) {
		return
	}
	s := RemoteSource{
		Address: source.Value, Line: source.Line, address: source, contents: contents,
		hash: child(child(contents, "verification"), "hash"),
	}
	if s.hash != nil {
		s.Hash = s.hash.Value
	}
	if c := child(contents, "compression"); c != nil {
		s.Gzip = c.Value == "gzip"
	}
	*all = append(*all, s)
}

// child returns the value of a key; nil if the node is no mapping with this key.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// Remote returns the remote file of a source with a hash. The error says why machines must not download the address.
// For an artifact without a digest, it is machineconfig.ErrNoDigest.
func (s RemoteSource) Remote(hash string) (machineconfig.Remote, error) {
	url := machineconfig.SourceOf(s.Address)
	return machineconfig.Remote{URL: url, Hash: hash, Gzip: s.Gzip}, machineconfig.CheckAddress(url)
}

// IsComplete reports whether the document has a hash, for an artifact also a digest, for an image a digest alone.
func (s RemoteSource) IsComplete() bool {
	if s.IsImage {
		return machineconfig.CheckImage(s.Address) == nil
	}
	_, err := s.Remote(s.Hash)
	return s.Hash != "" && !errors.Is(err, machineconfig.ErrNoDigest)
}

// Function is the hash function that the document uses: sha512, unless it has a sha256 already.
func (s RemoteSource) Function() string {
	if strings.HasPrefix(strings.ToLower(s.Hash), "sha256-") {
		return "sha256"
	}
	return "sha512"
}

type change struct {
	at, length int
	text       string
}

// WriteHashes returns the text with the hashes of sources, in the order of FindRemote, and with their resolved
// addresses. An empty hash leaves its source unchanged, unless it is an image. All other bytes stay.
func WriteHashes(text []byte, sources []RemoteSource, hashes []string) ([]byte, error) {
	var changes []change
	var bad []error
	for i, s := range sources {
		if s.Resolved != "" && (hashes[i] != "" || s.IsImage) {
			c, err := s.changeAddress(text)
			if err != nil {
				bad = append(bad, fmt.Errorf("line %d: %w", s.Line, err))
			}
			changes = append(changes, c)
		}
		if s.IsImage || hashes[i] == "" || strings.EqualFold(hashes[i], s.Hash) {
			continue
		}
		c, err := s.change(text, hashes[i])
		if err != nil {
			bad = append(bad, fmt.Errorf("line %d: %w", s.Line, err))
		}
		changes = append(changes, c)
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(b.at, a.at) })
	out := slices.Clone(text)
	for _, c := range changes {
		out = slices.Replace(out, c.at, c.at+c.length, []byte(c.text)...)
	}
	return out, check(out, sources, hashes)
}

func check(text []byte, sources []RemoteSource, hashes []string) error {
	again, err := FindRemote(text)
	if err == nil && len(again) != len(sources) {
		err = errors.New("the document has other sources afterwards")
	}
	for i := range again {
		isMissing := !sources[i].IsImage && !strings.EqualFold(again[i].Hash, hashes[i])
		if err == nil && (hashes[i] != "" || sources[i].IsImage) &&
			(isMissing || again[i].Address != cmp.Or(sources[i].Resolved, sources[i].Address)) {
			err = fmt.Errorf("the hash is not where it belongs")
		}
	}
	if err != nil {
		return fmt.Errorf("editing the document: %w; write the hash into it manually", err)
	}
	return nil
}

func (s RemoteSource) changeAddress(text []byte) (change, error) {
	at, length, err := scalar(text, s.address)
	return change{at, length, quoted(text, at, s.Resolved)}, err
}

func (s RemoteSource) change(text []byte, hash string) (change, error) {
	if s.hash != nil {
		at, length, err := scalar(text, s.hash)
		return change{at, length, quoted(text, at, hash)}, err
	}
	if child(s.contents, "verification") != nil {
		return change{}, fmt.Errorf("verification has no hash: add `hash: %s` to it, or remove the key", hash)
	}
	at, length, err := scalar(text, s.address)
	if err != nil {
		return change{}, err
	}
	if s.contents.Style&yaml.FlowStyle != 0 {
		if s.address.Style&yaml.DoubleQuotedStyle != 0 {
			return change{at + length, 0, fmt.Sprintf(`, "verification": {"hash": "%s"}`, hash)}, nil
		}
		return change{at + length, 0, fmt.Sprintf(", verification: {hash: %s}", hash)}, nil
	}
	end := at + length
	for end < len(text) && text[end] != '\n' { // A comment may follow the address.
		end++
	}
	newline := "\n"
	if end > 0 && text[end-1] == '\r' {
		end, newline = end-1, "\r\n"
	}
	indent := newline + strings.Repeat(" ", keyColumn(s.contents, "source")-1)
	return change{end, 0, indent + "verification:" + indent + "  hash: " + hash}, nil
}

func keyColumn(n *yaml.Node, key string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i].Column
		}
	}
	return 1
}

// scalar returns where a scalar is in a text, with its quotes.
func scalar(text []byte, n *yaml.Node) (at, length int, err error) {
	for line := 1; line < n.Line; line++ {
		next := bytes.IndexByte(text[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	for column := 1; column < n.Column && at < len(text); column++ { // Columns count characters.
		at++
		for at < len(text) && text[at]&0xc0 == 0x80 {
			at++
		}
	}
	for _, form := range []string{n.Value, `"` + n.Value + `"`, "'" + n.Value + "'"} {
		if n.Value != "" && bytes.HasPrefix(text[at:], []byte(form)) {
			return at, len(form), nil
		}
	}
	return 0, 0, errors.New("the value has anchors, escapes or several lines: write it as plain text")
}

// quoted gives a hash the quotes of the value that it replaces.
func quoted(text []byte, at int, hash string) string {
	if at < len(text) && (text[at] == '"' || text[at] == '\'') {
		return string(text[at]) + hash + string(text[at])
	}
	return hash
}
