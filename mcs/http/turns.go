package http

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// answersAtOnce are sent at a time. More would only end later, and a holder with one answer would wait for all
	// those of the others.
	answersAtOnce = 64
	// turnBytes of an answer are sent in one turn: the whole of an ordinary config.
	turnBytes = 2 << 20
	// leastTurn is the size in bytes from which a part of an answer needs a turn: less costs less than to wait.
	leastTurn = 4 << 10
	// turnTime is the longest turn. Then the client is slow, not the server, and the next answer begins beside it.
	turnTime = 250 * time.Millisecond
)

// turns lets answers be sent, answersAtOnce of them. Holders with answers that wait take turns.
type turns struct {
	mu      sync.Mutex
	running int
	line    line[holder, chan struct{}]
}

// try returns whether a holder may begin at once.
func (t *turns) try() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running >= answersAtOnce || t.line.count > 0 {
		return false
	}
	t.running++
	return true
}

// wait waits for a turn. The error is that of the context.
func (t *turns) wait(ctx context.Context, of holder) error {
	t.mu.Lock()
	granted := make(chan struct{})
	at := t.line.push(of, granted)
	t.grant()
	t.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-granted: // at the same moment
		t.running--
		t.grant()
	default:
		t.line.remove(at)
	}
	return ctx.Err()
}

func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	t.grant()
}

func (t *turns) grant() {
	for t.running < answersAtOnce {
		granted, ok := t.line.next(1, func(holder, chan struct{}) verdict { return leaves })
		if !ok {
			return
		}
		t.running++
		close(granted)
	}
}

// turnWriter sends an answer in turns. Before the first one it sends the headers, so that a client that waits for them
// only for some seconds, as Ignition does, waits for the body.
type turnWriter struct {
	http.ResponseWriter
	ctx   context.Context
	turns *turns
	of    holder
}

// Write sends bytes. The error is that of the context if the client has gone before its turn.
func (w turnWriter) Write(all []byte) (sent int, err error) {
	for len(all) > 0 && err == nil {
		part := all[:min(len(all), turnBytes)]
		n := 0
		n, err = w.turn(part)
		sent += n
		all = all[n:]
	}
	return sent, err
}

func (w turnWriter) turn(part []byte) (int, error) {
	if len(part) < leastTurn {
		return w.ResponseWriter.Write(part)
	}
	if !w.turns.try() {
		if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
			return 0, err
		}
		if err := w.turns.wait(w.ctx, w.of); err != nil {
			return 0, err
		}
	}
	end := sync.OnceFunc(w.turns.end)
	defer time.AfterFunc(turnTime, end).Stop()
	defer end()
	return w.ResponseWriter.Write(part)
}

// Unwrap is for http.ResponseController.
func (w turnWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
