package http

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
)

// slowClient takes its time to read each part of an answer.
type slowClient struct {
	http.ResponseWriter
	reads func()
}

// Write implements io.Writer.
func (c slowClient) Write(p []byte) (int, error) {
	c.reads()
	return len(p), nil
}

// Unwrap is for http.ResponseController.
func (c slowClient) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func holderAt(token string, source byte) holder { return holder{"token " + token, sourceNamed(source)} }

func TestAnswersOfOneHolderDoNotHoldUpAnother(t *testing.T) {
	for because, c := range map[string]struct {
		others  []holder
		longest time.Duration
	}{
		"a token that one thief uses":               {[]holder{holderAt("stolen", 'a')}, 200 * time.Millisecond},
		"a token that two thieves use":              {[]holder{holderAt("stolen", 'a'), holderAt("stolen", 'b')}, 200 * time.Millisecond},
		"the same token, which one thief uses, too": {[]holder{holderAt("own", 'a')}, 200 * time.Millisecond},
		"the same token, which two thieves use":     {[]holder{holderAt("own", 'a'), holderAt("own", 'b')}, 400 * time.Millisecond},
		"machines without a token":                  {[]holder{{source: sourceNamed('a')}, {source: sourceNamed('b')}}, 200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			all := &mcs.Turns{}
			var sending sync.WaitGroup
			defer sending.Wait()
			answer := func(of holder, parts int) (int, error) {
				reader := slowClient{httptest.NewRecorder(), func() { time.Sleep(100 * time.Millisecond) }}
				return turnWriter{reader, t.Context(), all, of}.Write(make([]byte, parts*turnBytes))
			}
			for _, of := range c.others {
				for range 2 * answersAtOnce {
					sending.Go(func() { _, _ = answer(of, 1) })
				}
			}
			synctest.Wait()
			began := time.Now()
			n, err := answer(holderAt("own", 'z'), 2)
			if took := time.Since(began); err != nil || n != 2*turnBytes || took > 2*c.longest {
				t.Errorf("beside %s, %d bytes of an answer in two parts are sent in %s: %v", because, n, took, err)
			}
		})
	}
}

func TestClientsThatDoNotReadLoseTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &mcs.Turns{}
		ctx, stop := context.WithCancel(t.Context())
		for range 2 * answersOfProofHere {
			go func() {
				w := turnWriter{
					slowClient{httptest.NewRecorder(), func() { <-ctx.Done() }}, ctx, all, holderAt("stolen", 'a'),
				}
				_, _ = w.Write(make([]byte, turnBytes))
			}()
		}
		synctest.Wait()
		began := time.Now()
		w := turnWriter{httptest.NewRecorder(), t.Context(), all, holderAt("stolen", 'a')}
		if _, err := w.Write(make([]byte, turnBytes)); err != nil || time.Since(began) != 2*turnTime {
			t.Errorf("an answer beside clients that do not read: %v after %s", err, time.Since(began))
		}
		stop()
	})
}

func TestAClientThatHasGoneLosesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &mcs.Turns{}
		if _, err := all.Take(t.Context(), mcs.Limit{Key: holderAt("own", 'a'), Most: 1}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		recorder := httptest.NewRecorder()
		w := turnWriter{recorder, ctx, all, holderAt("own", 'a')}
		if _, err := w.Write(make([]byte, turnBytes)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is sent an answer: %v", err)
		}
		if !recorder.Flushed || recorder.Body.Len() != 0 {
			t.Errorf("headers: %t, and %d bytes of the body are sent before the turn", recorder.Flushed,
				recorder.Body.Len())
		}
		if _, err := w.Write(make([]byte, leastTurn-1)); err != nil {
			t.Errorf("a short answer needs no turn: %v", err)
		}
	})
}

func TestAHolderWithoutASourceHasItsTurn(t *testing.T) {
	w := turnWriter{httptest.NewRecorder(), t.Context(), &mcs.Turns{}, holder{"token a", netip.Prefix{}}}
	if _, err := w.Write(make([]byte, turnBytes)); err != nil {
		t.Error(err)
	}
}
