package http

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
)

// So many answers are sent at a time: in all, for one token or certificate, and for one of them at one source. More
// would only end later, and a machine with another token, or at another source, would wait for all of them.
const (
	answersAtOnce      = 256
	answersOfProof     = answersAtOnce / 2
	answersOfProofHere = answersOfProof / 2
)

const (
	// turnBytes of an answer are sent in one turn: the whole of an ordinary config.
	turnBytes = 2 << 20
	// leastTurn is the size in bytes from which a part of an answer needs a turn: less costs less than to wait.
	leastTurn = 4 << 10
	// turnTime is the longest turn. Then the client is slow, not the server, and the next answer begins beside it.
	turnTime = 250 * time.Millisecond
)

// turnWriter sends an answer in turns. Before the first one it sends the headers, so that a client that waits for them
// only for some seconds, as Ignition does, waits for the body.
type turnWriter struct {
	http.ResponseWriter
	ctx   context.Context
	turns *mcs.Turns
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
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		return 0, err
	}
	end, err := w.turns.Take(w.ctx, mcs.Limit{Key: w.of, Most: answersOfProofHere},
		mcs.Limit{Key: w.of.proof, Most: answersOfProof}, mcs.Limit{Most: answersAtOnce})
	if err != nil {
		return 0, err
	}
	end = sync.OnceFunc(end)
	defer time.AfterFunc(turnTime, end).Stop()
	defer end()
	return w.ResponseWriter.Write(part)
}

// Unwrap is for http.ResponseController.
func (w turnWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
