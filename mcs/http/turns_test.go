package http

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
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

func TestAnswersOfOneTokenDoNotHoldUpAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &turns{}
		sent := map[string]time.Duration{}
		began := time.Now()
		answer := func(token string, parts int) {
			w := turnWriter{
				slowClient{httptest.NewRecorder(), func() { time.Sleep(100 * time.Millisecond) }},
				t.Context(), all,
				holder{proof: token},
			}
			if n, err := w.Write(make([]byte, parts*turnBytes)); err != nil || n != parts*turnBytes {
				t.Errorf("sent %d bytes, %v", n, err)
			}
			all.mu.Lock()
			sent[token] = time.Since(began)
			all.mu.Unlock()
		}
		for range 10 * answersAtOnce {
			go answer("stolen", 1)
		}
		synctest.Wait()
		answer("own", 2)
		synctest.Wait()
		all.mu.Lock() // as those of the other token still write
		if sent["own"] > 400*time.Millisecond {
			t.Errorf("an answer in two parts takes %s beside many of another token", sent["own"])
		}
		all.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if sent["stolen"] != time.Second+100*time.Millisecond {
			t.Errorf("the last of all takes %s", sent["stolen"])
		}
		if all.running != 0 || all.line.count != 0 {
			t.Errorf("%d are running and %d wait", all.running, all.line.count)
		}
	})
}

func TestClientsThatDoNotReadLoseTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &turns{}
		ctx, stop := context.WithCancel(t.Context())
		for range 3 * answersAtOnce {
			go func() {
				w := turnWriter{
					slowClient{httptest.NewRecorder(), func() { <-ctx.Done() }}, ctx, all, holder{proof: "stolen"},
				}
				_, _ = w.Write(make([]byte, turnBytes))
			}()
		}
		synctest.Wait()
		began := time.Now()
		w := turnWriter{httptest.NewRecorder(), t.Context(), all, holder{proof: "own"}}
		if _, err := w.Write(make([]byte, turnBytes)); err != nil || time.Since(began) > 2*turnTime {
			t.Errorf("an answer beside clients that do not read: %v after %s", err, time.Since(began))
		}
		stop()
		synctest.Wait()
		if all.running != 0 || all.line.count != 0 {
			t.Errorf("%d are running and %d wait", all.running, all.line.count)
		}
	})
}

func TestAClientThatHasGoneLosesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &turns{running: answersAtOnce}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		recorder := httptest.NewRecorder()
		w := turnWriter{recorder, ctx, all, holder{proof: "own"}}
		_, err := w.Write(make([]byte, turnBytes))
		if !errors.Is(err, context.DeadlineExceeded) || all.line.count != 0 || all.running != answersAtOnce {
			t.Errorf("%v, with %d that wait and %d that run", err, all.line.count, all.running)
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
