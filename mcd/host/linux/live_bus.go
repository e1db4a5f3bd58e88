package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// patience is how long whoever is asked may take. A bus accepts connections while nobody reads them, and D-Bus has no
// limits of its own: without these, a node would be Working for ever.
type patience struct {
	// ask is for connecting, and for an answer that takes no work.
	ask time.Duration
	// reload is for a daemon-reload, which runs the generators and reads every unit.
	reload time.Duration
	// job is for a service to reload or start. A oneshot unit has no limit of its own.
	job time.Duration
}

// usual is the patience outside of tests. It is longer than what systemd grants a service by default, so that systemd's
// own reason is the one that is told.
var usual = patience{ask: 30 * time.Second, reload: 5 * time.Minute, job: 15 * time.Minute}

// bus is the way to systemd: its private socket, which is there without a D-Bus daemon, and on which it tells all its
// peers how jobs end.
type bus struct {
	address  string
	patience patience

	mu   sync.Mutex
	line *line
	// met: systemd was there once.
	met bool
}

// line is one connection, which is two: calls go over one, signals come over the other.
type line struct {
	*dbus.Conn
	// calls is the first of them, for methods that go-systemd does not have.
	calls *godbus.Conn
	// lost is closed when either ends.
	lost <-chan struct{}
	// hang ends both.
	hang context.CancelFunc
}

func newBus(dir string) *bus {
	return &bus{address: socket(filepath.Join(dir, "run/systemd/private")), patience: usual}
}

// socket is the address of a peer that listens at a path.
func socket(at string) string { return "unix:path=" + godbus.EscapeBusAddressValue(at) }

// connect returns the connection, a new one where there is none or it was lost: systemd closes it when it starts anew.
func (b *bus) connect(ctx context.Context) (l *line, again bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line != nil && b.line.Connected() {
		return b.line, true, nil
	}
	b.hangUp()
	limited, done := context.WithTimeout(ctx, b.patience.ask)
	defer done()
	l, err = b.call(limited)
	for b.met && isAway(err) {
		// It was there, so it is starting anew.
		select {
		case <-limited.Done():
		case <-time.After(50 * time.Millisecond):
			l, err = b.call(limited)
			continue
		}
		break
	}
	if err = silence(limited, err, b.patience.ask); err != nil {
		return nil, false, fmt.Errorf("connecting to systemd: %w", err)
	}
	b.line, b.met = l, true
	return l, false, nil
}

// call makes a connection, which outlives the context; making it does not.
func (b *bus) call(ctx context.Context) (*line, error) {
	life, hang := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, hang)
	var conns []*godbus.Conn
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		c, err := dial(life, b.address)
		conns = append(conns, c)
		return c, err
	})
	stop()
	if err == nil && !conn.Connected() {
		err = errors.New("it was closed at once")
	}
	if err != nil {
		hang()
		return nil, err
	}
	for _, c := range conns {
		context.AfterFunc(c.Context(), hang)
	}
	return &line{Conn: conn, calls: conns[0], lost: life.Done(), hang: hang}, nil
}

// isAway tells errors that mean: nobody listens.
func isAway(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// dial connects and says who we are, by number: names would need a look-up.
func dial(life context.Context, address string) (*godbus.Conn, error) {
	conn, err := godbus.Dial(address, godbus.WithContext(life))
	if err != nil {
		return nil, err
	}
	if err := conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// do calls systemd, with a limit for its answer. After silence the connection is given up, and the next call makes a new
// one. A connection that turns out to be closed already is made again at once: all that is asked here may be asked twice.
func (b *bus) do(ctx context.Context, limit time.Duration, call func(context.Context, *line) error) error {
	l, old, err := b.connect(ctx)
	if err != nil {
		return err
	}
	limited, done := context.WithTimeout(ctx, limit)
	defer done()
	err = call(limited, l)
	if old && limited.Err() == nil && isBroken(err) {
		l.hang()
		if l, _, err = b.connect(limited); err != nil {
			return err
		}
		err = call(limited, l)
	}
	if err != nil && limited.Err() != nil || isBroken(err) {
		l.hang()
	}
	return silence(limited, err, limit)
}

// isBroken tells errors of the connection from those that somebody answered.
func isBroken(err error) bool {
	var answer godbus.Error
	return err != nil && !errors.As(err, &answer)
}

// silence says what an expired context means. An error that came before stays what it is.
func silence(limited context.Context, err error, limit time.Duration) error {
	if err != nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("there was no answer within %s: %w", limit, context.DeadlineExceeded)
	}
	return err
}

// hangUp ends the connection, if there is one.
func (b *bus) hangUp() {
	if b.line != nil {
		b.line.hang()
		b.line.Close()
		b.line = nil
	}
}

func (b *bus) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangUp()
}
