package transport

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/source"
)

// Capabilities are what a server announces at the beginning of a session in version 2.
type Capabilities struct {
	fetch  []string
	format string
}

// Filters reports whether the server can leave out objects by a filter.
func (c Capabilities) Filters() bool { return slices.Contains(c.fetch, "filter") }

// Shallow reports whether the server can send commits without their history.
func (c Capabilities) Shallow() bool { return slices.Contains(c.fetch, "shallow") }

// ObjectFormat returns the hash function of the repository: sha1 or sha256.
func (c Capabilities) ObjectFormat() string { return c.format }

// IsVersion2 reports whether a server answers in version 2. IsVersion2 reads ahead, so the caller reads the rest of the
// message from the returned reader, whatever the version is. A server that does not know version 2 ignores the request
// for it.
func IsVersion2(r io.Reader) (bool, io.Reader, error) {
	buffered := bufio.NewReaderSize(r, maxPacket)
	const first, service = "000eversion 2\n", "001e# service=git-upload-pack\n0000"
	head, err := buffered.Peek(len(first))
	if err != nil {
		return false, buffered, nil // The function that reads version 0 returns a better error.
	}
	if string(head) == first {
		return true, buffered, nil
	}
	// Some servers send the first line of version 0 before the line of version 2.
	long, err := buffered.Peek(len(service) + len(first))
	if err != nil || string(long) != service+first {
		return false, buffered, nil
	}
	if _, err := buffered.Discard(len(service)); err != nil {
		return false, buffered, err
	}
	return true, buffered, nil
}

// maxCapabilities is the most bytes of capabilities. Those of real servers have less than 1 KiB.
const maxCapabilities = 64 << 10

// errCapabilities is the error for more capabilities.
var errCapabilities = fmt.Errorf("the server sends more than %d KiB of capabilities", maxCapabilities>>10)

// ReadCapabilities reads the first message of a server in version 2.
func ReadCapabilities(r io.Reader) (Capabilities, error) {
	p := newPackets(r)
	c := Capabilities{format: "sha1"}
	switch _, text, err := p.line(); {
	case err != nil:
		return c, fmt.Errorf("reading the version of the protocol: %w", unexpected(err))
	case text != "version 2":
		return c, p.expected("version 2")
	}
	for left := maxCapabilities; ; {
		k, text, err := p.line()
		if err != nil {
			return c, unexpected(err)
		}
		if k != data {
			return c, nil
		}
		if left -= len(text); left < 0 {
			return c, errCapabilities
		}
		switch name, value, _ := strings.Cut(text, "="); name {
		case "fetch":
			c.fetch = strings.Fields(value)
		case "object-format":
			c.format = value
		}
	}
}

// RefsRequest returns the request for all refs that begin with one of the prefixes. Without prefixes, the server lists
// all refs.
func RefsRequest(prefixes []string) []byte {
	var m message
	m.line("command=ls-refs")
	m.line("agent=bunsen")
	m.line("object-format=sha1")
	m.delimiter()
	m.line("peel")
	m.line("symrefs")
	m.line("unborn")
	for _, p := range prefixes {
		m.line("ref-prefix %s", p)
	}
	return m.end()
}

var objectName = regexp.MustCompile(`^[0-9a-f]{40}$`)

// ReadRefs reads the response to RefsRequest. The refs are in lexical order, HEAD first.
func ReadRefs(r io.Reader) ([]source.Ref, error) {
	p := newPackets(r)
	var refs []source.Ref
	for {
		k, text, err := p.line()
		switch {
		case err != nil:
			return nil, unexpected(err)
		case k != data:
			return sorted(refs), nil
		}
		ref, want := parseRef(text)
		if want != "" {
			return nil, p.expected("%s", want)
		}
		if ref.Hash != "" || ref.Target != "" {
			refs = append(refs, ref)
		}
	}
}

// parseRef reads `HASH NAME [symref-target:NAME] [peeled:HASH]`. HASH is `unborn` for a branch without commits. If the
// text is no ref, parseRef returns what it expected.
func parseRef(text string) (ref source.Ref, want string) {
	fields := strings.Split(text, " ")
	if len(fields) < 2 || fields[1] == "" {
		return ref, "the hash and the name of a ref"
	}
	ref = source.Ref{Name: fields[1], Hash: fields[0]}
	for _, attribute := range fields[2:] {
		switch name, value, _ := strings.Cut(attribute, ":"); name {
		case "symref-target":
			ref.Target = value
		case "peeled":
			ref.Peeled = value
		}
	}
	if ref.Hash == "unborn" {
		ref.Hash = ""
	}
	for _, hash := range []string{ref.Hash, ref.Peeled} {
		if hash != "" && !objectName.MatchString(hash) {
			return ref, "a hash of SHA-1"
		}
	}
	if ref.Name != "HEAD" {
		ref.Target = ""
	}
	return ref, ""
}

// sorted returns refs in lexical order, HEAD first. sorted leaves out the HEAD of a repository without any ref.
func sorted(refs []source.Ref) []source.Ref {
	slices.SortFunc(refs, func(a, b source.Ref) int {
		if (a.Name == "HEAD") != (b.Name == "HEAD") {
			if a.Name == "HEAD" {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(refs) == 1 && refs[0].Name == "HEAD" && refs[0].Hash == "" {
		return nil
	}
	return refs
}

// FetchRequest is a request for objects.
type FetchRequest struct {
	// Wants are the hashes of the requested objects. The server also sends the objects that the requested objects refer
	// to.
	Wants []string
	// Haves are the hashes of commits that the client has. The client also has all objects that these commits refer to,
	// except objects that Shallow and Filter leave out.
	Haves []string
	// Shallow are the hashes of commits that the client has without their parents.
	Shallow []string
	// Depth is the number of commits that the server sends of each history; 0 is the whole history.
	Depth int
	// Filter is NoFilter, CommitsOnly or NoFiles.
	Filter string
	// Thin allows deltas whose base the client has.
	Thin bool
}

// The values of FetchRequest.Filter.
const (
	// NoFilter requests all objects.
	NoFilter = ""
	// CommitsOnly leaves out all folders and files.
	CommitsOnly = "tree:0"
	// NoFiles leaves out the contents of files.
	NoFiles = "blob:none"
)

// Request returns the request in version 2.
func (f FetchRequest) Request() []byte {
	var m message
	m.line("command=fetch")
	m.line("agent=bunsen")
	m.line("object-format=sha1")
	m.delimiter()
	if f.Thin {
		m.line("thin-pack")
	}
	m.line("no-progress")
	m.line("ofs-delta")
	for _, hash := range f.Shallow {
		m.line("shallow %s", hash)
	}
	if f.Depth > 0 {
		m.line("deepen %d", f.Depth)
	}
	if f.Filter != NoFilter {
		m.line("filter %s", f.Filter)
	}
	for _, hash := range f.Wants {
		m.line("want %s", hash)
	}
	for _, hash := range f.Haves {
		m.line("have %s", hash)
	}
	m.line("done")
	return m.end()
}

// ReadPack reads the response to a Fetch up to the pack, and returns the stream of the pack. The stream ends where the
// pack ends. Errors that the server sends in the stream are *RefusedError.
func ReadPack(r io.Reader) (io.Reader, error) {
	p := newPackets(r)
	for {
		k, text, err := p.line()
		if err != nil {
			return nil, unexpected(err)
		}
		if k != data || text == "packfile" {
			if k != data {
				return nil, fmt.Errorf("%w: the response has no pack", ErrInvalid)
			}
			return &packReader{packets: p}, nil
		}
		// The sections acknowledgments, shallow-info and wanted-refs end with a delimiter. ReadPack skips them, because
		// nothing in them changes the request.
		if err := p.skipSection(); err != nil {
			return nil, err
		}
	}
}

// skipSection reads up to the end of a section.
func (p *packets) skipSection() error {
	for {
		switch k, _, err := p.next(); {
		case err != nil:
			return unexpected(err)
		case k == delimiter:
			return nil
		case k != data:
			return fmt.Errorf("%w: the response has no pack", ErrInvalid)
		}
	}
}

// packReader reads the pack from the packets of a response. The first byte of each packet names its channel.
type packReader struct {
	packets *packets
	left    []byte
	done    bool
}

// Read reads bytes of the pack.
func (r *packReader) Read(b []byte) (int, error) {
	for len(r.left) == 0 {
		if r.done {
			return 0, io.EOF
		}
		k, content, err := r.packets.next()
		switch {
		case err != nil:
			return 0, unexpected(err)
		case k != data:
			r.done = true
			continue
		case len(content) == 0:
			return 0, r.packets.expected("a channel")
		}
		switch content[0] {
		case 1:
			r.left = content[1:]
		case 2: // Channel 2 has progress messages.
		case 3:
			return 0, &RefusedError{Text: source.Line(strings.TrimSpace(string(content[1:])))}
		default:
			return 0, r.packets.expected("channel 1, 2 or 3")
		}
	}
	n := copy(b, r.left)
	r.left = r.left[n:]
	return n, nil
}

// ErrInvalid is in the chain of each error about bytes that are not of git's protocol.
var ErrInvalid = errors.New("invalid pkt-len found")

// RefusedError is an error that the server sent as text.
type RefusedError struct {
	// Text is the server's text, in one line without hidden characters.
	Text string
}

// Error returns the server's text.
func (e *RefusedError) Error() string { return fmt.Sprintf("the server said %q", e.Text) }

// kind is the kind of a packet.
type kind int

// The kinds of packets. flush ends a message, delimiter ends a section of a message.
const (
	data kind = iota
	flush
	delimiter
	responseEnd
)

// maxPacket is the size of the largest packet, including its length field, in bytes.
const maxPacket = 65520

// packets reads packets.
type packets struct {
	r     *bufio.Reader
	buf   [maxPacket]byte
	count int // how many packets were read
}

func newPackets(r io.Reader) *packets {
	if b, ok := r.(*bufio.Reader); ok {
		return &packets{r: b}
	}
	return &packets{r: bufio.NewReaderSize(r, maxPacket)}
}

// next reads one packet. The content is valid until the next call of next. The error is a *RefusedError if the server
// sent an error.
func (p *packets) next() (kind, []byte, error) {
	p.count++
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return flush, nil, err
	}
	var length [2]byte
	if _, err := hex.Decode(length[:], head[:]); err != nil {
		return flush, nil, p.expected("its length in four hex digits")
	}
	switch n := int(length[0])<<8 | int(length[1]); {
	case n == 0:
		return flush, nil, nil
	case n == 1:
		return delimiter, nil, nil
	case n == 2:
		return responseEnd, nil, nil
	case n < 4 || n > maxPacket:
		return flush, nil, p.expected("a length from 4 to %d bytes", maxPacket)
	default:
		content := p.buf[:n-4]
		if _, err := io.ReadFull(p.r, content); err != nil {
			return flush, nil, unexpected(err)
		}
		if text, ok := bytes.CutPrefix(content, []byte("ERR ")); ok {
			return flush, nil, &RefusedError{Text: source.Line(string(text))}
		}
		return data, content, nil
	}
}

// expected returns the error for a packet that has something else. The error contains no byte of the packet, because a
// URL may lead to any service.
func (p *packets) expected(format string, args ...any) error {
	return fmt.Errorf("%w: packet %d: expected %s", ErrInvalid, p.count, fmt.Sprintf(format, args...))
}

// line reads a packet and returns its text without the line break.
func (p *packets) line() (kind, string, error) {
	k, content, err := p.next()
	return k, string(bytes.TrimSuffix(content, []byte("\n"))), err
}

// unexpected returns the error for a response that ends too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// message is a request under construction.
type message struct{ bytes.Buffer }

// line adds a packet with a text and a line break.
func (m *message) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(m, "%04x%s\n", len(text)+5, text)
}

func (m *message) delimiter() { m.WriteString("0001") }

// end adds the packet that ends a message, and returns the message.
func (m *message) end() []byte {
	m.WriteString("0000")
	return m.Bytes()
}
