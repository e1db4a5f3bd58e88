package controllertest

import (
	"errors"
	"sync"

	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// Writes counts the writes of the controllers, and simulates their crash.
type Writes struct {
	mu sync.Mutex
	// until the controllers crash; negative: never
	Left int
	// the executed ones
	Done []string
	// Fault, if set, may replace the result of a write. done: it is executed although it returns an error.
	Fault func(what string) (done bool, err error)
}

func (l *Writes) write(what string, do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Left == 0 {
		return ErrCrash
	}
	l.Left--
	l.Done = append(l.Done, what)
	if l.Fault != nil {
		if done, err := l.Fault(what); err != nil && done {
			return errors.Join(err, do())
		} else if err != nil {
			return err
		}
	}
	return do()
}

// Events stores the events of the controllers.
type Events struct {
	// Controllers that write several objects at a time also send several events at a time.
	mu sync.Mutex
	// one for each event
	Lines []string
}

// Send stores the event.
func (e *Events) Send(sent kube.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Lines = append(e.Lines, sent.Type()+" "+sent.Reason+": "+kube.Clip(sent.Note))
}
