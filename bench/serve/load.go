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

// job is the input of the client process.
type job struct {
	// Address of the server, the CA of its certificate (PEM), and the Path of the requests.
	Address, CA, Path string
	// Token for the requests, or "".
	Token string
	// Tokens has one for each machine of a storm; empty: all have Token.
	Tokens []string
	// Zipped requests gzip.
	Zipped bool
	// Kind is one of full, resumed and storm.
	Kind string
	// Workers is the number of concurrent clients; for a storm, the number of machines.
	Workers int
	// For is the duration of the job. If Requests is not 0, it is the minimum number of requests. For a storm, For is
	// the maximum duration.
	For      time.Duration
	Requests int
	// Digest is the SHA-256 of the body in hexadecimal, and Size its length.
	Digest string
	Size   int
	// OneAddress makes all machines of a storm come from the same address.
	OneAddress bool
}

// The kinds of connections.
const (
	full    = "full"    // a new connection with a full handshake for each request
	resumed = "resumed" // a new connection for each request that resumes an earlier session
	storm   = "storm"   // machines that boot
)

// outcome is the result of a job.
type outcome struct {
	Wall time.Duration
	// Latencies of requests, including the connection. For a storm, the time of each machine until it has its config.
	Latencies []time.Duration
	// Resumed is the number of short handshakes. Retries is the number of repeated requests in a storm.
	Resumed, Retries int
	// Failed has the errors of the first failed machines, and Failures their number.
	Failed   []string
	Failures int
}

// source returns the address of the n-th client. Loopback has 16 million addresses, and a server's limits for each
// address apply as to real machines.
func source(n int) net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, byte(1+n/62500%200), byte(n/250), byte(1+n%250))}
}

// do runs the job.
func (j job) do(ctx context.Context) (outcome, error) {
	if j.Kind == storm {
		return j.boots(ctx), nil
	}
	return j.load(ctx)
}

// load sends requests in a closed loop: each worker sends its next request after the last response is complete.
func (j job) load(ctx context.Context) (outcome, error) {
	begun := time.Now()
	workers := make([]worker, j.Workers)
	errs := make([]error, j.Workers)
	var all sync.WaitGroup
	var asked atomic.Int64
	for i := range workers {
		workers[i] = worker{job: j, number: i, asked: &asked, buffer: make([]byte, 64<<10)}
		// only the machines of the storm verify the certificate
		workers[i].config = &tls.Config{InsecureSkipVerify: true}
		if j.Kind == resumed {
			workers[i].config.ServerName, workers[i].config.ClientSessionCache = "localhost",
				tls.NewLRUClientSessionCache(1)
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

// worker is one client.
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

// run sends requests until the end. It waits for the response to the last one.
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
		if w.conn.ConnectionState().DidResume {
			w.resumed++
		}
		_ = w.hangUp() // the last request announced the end of the connection
	}
	return nil
}

// request returns the text of every request.
func (w *worker) request() []byte {
	text := "GET " + w.Path + " HTTP/1.1\r\nHost: " + w.Address + "\r\nUser-Agent: Ignition/2.27.0\r\nAccept: " +
		accept + "\r\n"
	if w.Token != "" {
		text += "Authorization: Bearer " + w.Token + "\r\n"
	}
	if w.Zipped {
		text += "Accept-Encoding: gzip\r\n"
	} else {
		text += "Accept-Encoding: identity\r\n"
	}
	return []byte(text + "Connection: close\r\n\r\n")
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

// receive reads one response. It compares the body of the first one, and only the length of the others.
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

// length returns the length of the body according to the header of a successful response.
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
