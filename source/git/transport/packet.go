package transport

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/bunsen-os/bunsen/source"
)

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
