package transport

import (
	"fmt"
	"io"
	"strings"

	"github.com/bunsen-os/bunsen/source"
)

// The values of Fetch.Filter.
const (
	// NoFilter requests all objects.
	NoFilter = ""
	// CommitsOnly leaves out all folders and files.
	CommitsOnly = "tree:0"
	// NoFiles leaves out the contents of files.
	NoFiles = "blob:none"
)

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
