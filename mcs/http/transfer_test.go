package http

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// transferClient counts how often it gets more time, and ends after some bytes.
type transferClient struct {
	http.ResponseWriter
	deadlines []time.Time
	left      int
}

func (c *transferClient) SetWriteDeadline(at time.Time) error {
	c.deadlines = append(c.deadlines, at)
	return nil
}

func (c *transferClient) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		return 0, errors.New("i/o timeout")
	}
	return c.ResponseWriter.Write(b)
}

func TestAClientGetsMoreTimeForEachPart(t *testing.T) {
	contents := bytes.Repeat([]byte("x"), 3*part+1)
	c := &transferClient{ResponseWriter: httptest.NewRecorder(), left: len(contents)}
	began := time.Now()
	status, sent, err := SendFile(c, httptest.NewRequest("GET", "/", nil), "tag",
		TransferFile{bytes.NewReader(contents), int64(len(contents))})
	if status != 200 || sent != int64(len(contents)) || err != nil || len(c.deadlines) != 4 {
		t.Errorf("%d, %d bytes, %v, %d deadlines", status, sent, err, len(c.deadlines))
	}
	for _, d := range c.deadlines {
		if after := d.Sub(began); after < timeout || after > timeout+10*time.Second {
			t.Errorf("it has %s", after)
		}
	}
}

func TestAClientThatReadsNothingIsLeft(t *testing.T) {
	contents := bytes.Repeat([]byte("x"), 3*part)
	c := &transferClient{ResponseWriter: httptest.NewRecorder(), left: part}
	status, sent, err := SendFile(c, httptest.NewRequest("GET", "/", nil), "tag",
		TransferFile{bytes.NewReader(contents), int64(len(contents))})
	if status != 200 || sent != part || err == nil || !strings.Contains(err.Error(), "i/o timeout") {
		t.Errorf("%d, %d bytes, %v", status, sent, err)
	}
}

// cut is a file that ends too early.
type cut struct{ *bytes.Reader }

func (c cut) Seek(offset int64, whence int) (int64, error) {
	n, err := c.Reader.Seek(offset, whence)
	if whence == io.SeekEnd {
		n += 10
	}
	return n, err
}

func TestAFileThatEndsTooEarlyIsNoSuccess(t *testing.T) {
	_, _, err := SendFile(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), "tag",
		TransferFile{cut{bytes.NewReader([]byte("12345"))}, 15})
	if err == nil || !strings.Contains(err.Error(), "only 5 of 15 bytes") {
		t.Errorf("it says %v", err)
	}
}
