package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// job is what the process that asks is told.
type job struct {
	// Address of the server, CA that its certificate is of (PEM), Path of what is asked for.
	Address, CA, Path string
	// Token to show, or "".
	Token string
	// Zipped asks for gzip.
	Zipped bool
	// Kind is one of full, resumed, keep; or storm.
	Kind string
	// Workers are how many ask at once; of a storm, how many machines boot.
	Workers int
	// For is how long they ask, or at least Requests times where that is not 0; of a storm, how long it may take.
	For      time.Duration
	Requests int
	// Digest is of the body (SHA-256, hex) and Size its length.
	Digest string
	Size   int
	// OneAddress makes all machines of a storm come from the same address.
	OneAddress bool
}

// The kinds of connections.
const (
	full    = "full"    // a new connection for each request, and a whole handshake
	resumed = "resumed" // a new connection for each request, that goes on with an earlier session
	keep    = "keep"    // one connection for all
	storm   = "storm"   // machines that boot
)

// outcome is what came of a job.
type outcome struct {
	Wall time.Duration
	// Latencies of requests, connecting included; of a storm, each machine's time to its config.
	Latencies []time.Duration
	// Resumed is how many handshakes were short, Retries how often machines of a storm asked again.
	Resumed, Retries int
	// Failed says of the first machines what went wrong, Failures how many they are.
	Failed   []string
	Failures int
}

// source is the address that the n-th client comes from: loopback has 16 million, and limits that a server has for each
// address have to meet machines as they are.
func source(n int) net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, byte(1+n/62500%200), byte(n/250), byte(1+n%250))}
}

// do does the job.
func (j job) do(ctx context.Context) (outcome, error) {
	if j.Kind == storm {
		return j.boots(ctx), nil
	}
	return j.load(ctx)
}

// load asks in a closed loop: each worker sends its next request when the last one's answer is complete.
func (j job) load(ctx context.Context) (outcome, error) {
	begun := time.Now()
	workers := make([]worker, j.Workers)
	errs := make([]error, j.Workers)
	var all sync.WaitGroup
	var asked atomic.Int64
	for i := range workers {
		workers[i] = worker{job: j, number: i, asked: &asked, buffer: make([]byte, 64<<10)}
		workers[i].config = &tls.Config{InsecureSkipVerify: true} // whom to believe is the machines' of the storm to check
		if j.Kind == resumed {
			workers[i].config.ServerName, workers[i].config.ClientSessionCache = "localhost", tls.NewLRUClientSessionCache(1)
		}
		all.Go(func() { errs[i] = workers[i].run(ctx, begun.Add(j.For)) })
	}
	all.Wait()
	o := outcome{Wall: time.Since(begun)}
	for i := range workers {
		o.Latencies = append(o.Latencies, workers[i].took...)
		o.Resumed += workers[i].resumed
	}
	return o, errors.Join(errs...)
}

// worker is one of those who ask.
type worker struct {
	job
	number  int
	asked   *atomic.Int64
	config  *tls.Config
	conn    *tls.Conn
	buffer  []byte
	checked bool
	took    []time.Duration
	resumed int
}

// run asks until the end; the request that has begun by then is answered.
func (w *worker) run(ctx context.Context, end time.Time) error {
	defer func() { _ = w.hangUp() }()
	request := w.request()
	for time.Now().Before(end) {
		if n := w.asked.Add(1); w.Requests > 0 && n > int64(w.Requests) {
			break
		}
		begun := time.Now()
		if err := w.connect(ctx); err != nil {
			return err
		}
		if _, err := w.conn.Write(request); err != nil {
			return fmt.Errorf("asking: %w", err)
		}
		if err := w.receive(); err != nil {
			return err
		}
		w.took = append(w.took, time.Since(begun))
		if w.Kind != keep {
			if w.conn.ConnectionState().DidResume {
				w.resumed++
			}
			_ = w.hangUp() // the server was told that this is the last request
		}
	}
	return nil
}

// request is the text of every request.
func (w *worker) request() []byte {
	text := "GET " + w.Path + " HTTP/1.1\r\nHost: " + w.Address + "\r\nUser-Agent: Ignition/2.27.0\r\nAccept: " + accept + "\r\n"
	if w.Token != "" {
		text += "Authorization: Bearer " + w.Token + "\r\n"
	}
	if w.Zipped {
		text += "Accept-Encoding: gzip\r\n"
	} else {
		text += "Accept-Encoding: identity\r\n"
	}
	if w.Kind != keep {
		text += "Connection: close\r\n"
	}
	return []byte(text + "\r\n")
}

func (w *worker) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: dialTimeout, LocalAddr: source(w.number + len(w.took)*w.Workers)}
	conn, err := dialer.DialContext(ctx, "tcp", w.Address)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	w.conn = tls.Client(conn, w.config)
	return nil
}

func (w *worker) hangUp() error {
	if w.conn == nil {
		return nil
	}
	conn := w.conn
	w.conn = nil
	return conn.Close()
}

// receive reads one answer: the first one is compared, of the others the length.
func (w *worker) receive() error {
	have, end := 0, -1
	for end < 0 {
		n, err := w.conn.Read(w.buffer[have:])
		if have += n; n == 0 && err != nil {
			return fmt.Errorf("reading the answer: %w after %d bytes of its head", err, have)
		}
		end = bytes.Index(w.buffer[:have], []byte("\r\n\r\n"))
	}
	size, err := length(w.buffer[:end])
	if err != nil {
		return err
	}
	if size != w.Size {
		return fmt.Errorf("the body has %d bytes, want %d", size, w.Size)
	}
	sum := sha256.New()
	for got := w.buffer[end+4 : have]; ; {
		if !w.checked {
			sum.Write(got)
		}
		if size -= len(got); size <= 0 {
			break
		}
		n, err := w.conn.Read(w.buffer[:min(size, len(w.buffer))])
		if n == 0 && err != nil {
			return fmt.Errorf("reading the body: %w with %d bytes to come", err, size)
		}
		got = w.buffer[:n]
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !w.checked && got != w.Digest {
		return fmt.Errorf("the body has digest %s, want %s", got, w.Digest)
	}
	w.checked = true
	return nil
}

// length is what the head of a good answer says of its body.
func length(head []byte) (int, error) {
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return 0, fmt.Errorf("the answer is %q", head)
	}
	const name = "\r\ncontent-length: "
	at := bytes.Index(bytes.ToLower(head), []byte(name))
	if at < 0 {
		return 0, fmt.Errorf("the answer does not say how long it is: %q", head)
	}
	value, _, _ := bytes.Cut(head[at+len(name):], []byte("\r\n"))
	return strconv.Atoi(string(value))
}
