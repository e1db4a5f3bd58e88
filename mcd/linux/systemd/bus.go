package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/bunsen-os/bunsen/api/fault"
)

// timeouts are the limits for answers of systemd. A bus accepts connections even if no process reads them, and D-Bus
// has no limits of its own. Without limits, a node could stay Working for ever.
type timeouts struct {
	// ask is the limit for connecting, and for calls that systemd answers at once.
	ask time.Duration
	// reload is the limit for a daemon-reload, which runs the generators and reads every unit.
	reload time.Duration
	// job is the limit for the reload or start of a service. A oneshot unit has no limit of its own.
	job time.Duration
}

// defaultTimeouts are the limits outside tests. The default timeouts are longer than systemd's own defaults, so that
// errors contain systemd's reason.
var defaultTimeouts = timeouts{ask: 30 * time.Second, reload: 5 * time.Minute, job: 15 * time.Minute}

// bus connects to systemd through its private socket, which works without a D-Bus daemon. On this socket, systemd
// reports to all clients how jobs end.
type bus struct {
	address  string
	timeouts timeouts

	mu   sync.Mutex
	conn *conn
	// connected is true after the first connection to systemd.
	connected bool
}

// conn is a pair of connections: one for calls, the other for signals.
type conn struct {
	*dbus.Conn
	// calls is the connection for calls of methods that go-systemd does not have.
	calls *godbus.Conn
	// lost is closed when either connection ends.
	lost <-chan struct{}
	// cancel closes both connections.
	cancel context.CancelFunc
}

// socket returns the D-Bus address of a socket at a path.
func socket(at string) string { return "unix:path=" + godbus.EscapeBusAddressValue(at) }

// connect returns the present connection, or a new one if there is none or it was lost. systemd closes the connection
// when it restarts itself.
func (b *bus) connect(ctx context.Context) (l *conn, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil && b.conn.Connected() {
		return b.conn, nil
	}
	b.disconnect()
	limited, done := context.WithTimeout(ctx, b.timeouts.ask)
	defer done()
	l, err = b.call(limited)
	for n := 1; b.connected && isAway(err) || errors.Is(err, errClosed) && n < maxCalls; n++ {
		// systemd was reachable before, or it has just closed the connection, so it is probably restarting itself.
		select {
		case <-limited.Done():
		case <-time.After(50 * time.Millisecond):
			l, err = b.call(limited)
			continue
		}
		break
	}
	if err = timeoutError(limited, err, b.timeouts.ask); err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	b.conn, b.connected = l, true
	return l, nil
}

// call returns a connection. The context limits only the time to connect; the connection stays open after the context
// ends.
func (b *bus) call(ctx context.Context) (*conn, error) {
	life, hang := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, hang)
	var conns []*godbus.Conn
	made, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		c, err := dial(life, b.address)
		conns = append(conns, c)
		return c, err
	})
	stop()
	if err == nil && !made.Connected() {
		err = errClosed
	}
	if err != nil {
		hang()
		return nil, err
	}
	for _, c := range conns {
		context.AfterFunc(c.Context(), hang)
	}
	return &conn{Conn: made, calls: conns[0], lost: life.Done(), cancel: hang}, nil
}

// errClosed reports that systemd closed a connection before the first call.
var errClosed = errors.New("it was closed at once")

// isAway reports whether an error means that no process listens at the socket.
func isAway(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// dial connects and authenticates by uid, because a user name would need a look-up.
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

// maxCalls is how often a call is made whose answer gets lost: systemd closes all connections when it restarts itself.
const maxCalls = 3

// do calls systemd with a time limit. After a timeout, do drops the connection, and the next call connects again. If
// the connection was closed before the answer, do connects again and repeats the call, because all calls can be
// repeated without harm.
func (b *bus) do(ctx context.Context, limit time.Duration, call func(context.Context, *conn) error) error {
	l, err := b.connect(ctx)
	if err != nil {
		return err
	}
	limited, done := context.WithTimeout(ctx, limit)
	defer done()
	err = call(limited, l)
	for n := 1; n < maxCalls && limited.Err() == nil && isBroken(err); n++ {
		l.cancel()
		if l, err = b.connect(limited); err != nil {
			return err
		}
		err = call(limited, l)
	}
	if err != nil && limited.Err() != nil || isBroken(err) {
		l.cancel()
	}
	return timeoutError(limited, err, limit)
}

// lostAnswer marks the error of a call whose answer is missing.
func lostAnswer(err error) error { return fault.BusRequest(err, nameOf(err)) }

// nameOf returns the name of the D-Bus error in an error; empty if there was no reply.
func nameOf(err error) string {
	var answer godbus.Error
	if errors.As(err, &answer) {
		return answer.Name
	}
	return ""
}

// isBroken distinguishes an error of the connection from an error that systemd returned.
func isBroken(err error) bool { return fault.IsUnknown(lostAnswer(err)) }

// timeoutError explains an expired context. timeoutError returns an earlier error unchanged.
func timeoutError(limited context.Context, err error, limit time.Duration) error {
	if err == nil || !errors.Is(limited.Err(), context.DeadlineExceeded) {
		return err
	}
	late := fmt.Errorf("there was no answer within %s: %w", limit, context.DeadlineExceeded)
	if fault.IsUnknown(err) {
		return fault.NewUnknown(late)
	}
	return late
}

// disconnect closes the connection, if there is one.
func (b *bus) disconnect() {
	if b.conn != nil {
		b.conn.cancel()
		b.conn.Close()
		b.conn = nil
	}
}

func (b *bus) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.disconnect()
}
