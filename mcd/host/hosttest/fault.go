package hosttest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// The errors that the wrappers return.
var (
	// ErrCrashed means that the simulated process has crashed. Later calls of the crashed process have no effect.
	ErrCrashed = errors.New("crashed")
	// ErrInjected is a failure that a test requested.
	ErrInjected = errors.New("injected failure")
	// ErrFull means that the disk is full.
	ErrFull = errors.New("the disk is full")
	// ErrReadOnly means that the file system is read-only.
	ErrReadOnly = errors.New("read-only file system")
	// ErrLost means that the call has its effect, and that its answer is lost.
	ErrLost = errors.New("the connection was closed")
)

// Call is one call that changes the host.
type Call struct {
	// N is the number of the call, from 1.
	N int
	// Port is the called interface. Target is the changed object.
	Port, Target string
	// Frees is true if the call needs no disk space.
	Frees bool
	// GivenUp is closed when the caller's context ends; nil if the call has no context.
	GivenUp <-chan struct{}
}

// Fault runs before each changing call. If a Fault returns an error, the call has no effect, except for ErrLost.
type Fault func(Call) error

// FailNth makes only the n-th change fail.
func FailNth(n int) Fault {
	return func(c Call) error {
		if c.N == n {
			return fmt.Errorf("%s %s: %w", c.Port, c.Target, ErrInjected)
		}
		return nil
	}
}

// CrashAfter simulates a crash after n changes.
func CrashAfter(n int) Fault {
	return func(c Call) error {
		if c.N > n {
			return ErrCrashed
		}
		return nil
	}
}

// FailFrom makes the n-th change and all later changes fail with an error.
func FailFrom(n int, err error) Fault {
	return func(c Call) error {
		if c.N >= n {
			return fmt.Errorf("%s %s: %w", c.Port, c.Target, err)
		}
		return nil
	}
}

// FullFrom simulates a full disk from the n-th change on. Changes that need no disk space still work.
func FullFrom(n int) Fault {
	return func(c Call) error {
		if c.N >= n && !c.Frees {
			return fmt.Errorf("%s %s: %w", c.Port, c.Target, ErrFull)
		}
		return nil
	}
}

// HangFrom makes calls with a context hang until the context ends, from the n-th change on. The function hung is called
// when the first call hangs.
func HangFrom(n int, hung func()) Fault {
	return func(c Call) error {
		if c.N < n || c.GivenUp == nil {
			return nil
		}
		hung()
		<-c.GivenUp
		return fmt.Errorf("%s %s: %w", c.Port, c.Target, context.Canceled)
	}
}

// ReadOnlyPath makes changes of a path, and of files below it, fail.
func ReadOnlyPath(p string) Fault {
	return func(c Call) error {
		if c.Port == "files" && (c.Target == p || strings.HasPrefix(c.Target, p+"/")) {
			return fmt.Errorf("%s: %w", c.Target, ErrReadOnly)
		}
		return nil
	}
}

// Counter counts the changing calls of a wrapped host.
type Counter struct {
	// N is the number of calls so far, including failed calls.
	N int

	fault Fault
}

// Wrap returns a host that calls a fault before every change. With a nil fault, it only counts.
func Wrap(h host.Host, fault Fault) (host.Host, *Counter) {
	c := &Counter{fault: fault}
	h.Files = faultyFiles{h.Files, c}
	h.Disk = faultyDisk{h.Disk, c}
	h.Units = faultyUnits{h.Units, c}
	h.Passwd = faultyPasswd{h.Passwd, c}
	h.OS = faultyOS{h.OS, c}
	h.Trust = faultyTrust{h.Trust, c}
	h.Power = faultyPower{h.Power, c}
	h.Journal = faultyJournal{h.Journal, c}
	h.Store = faultyStore{h.Store, c}
	if merge := h.MergeKeys; merge != nil {
		h.MergeKeys = func(ctx context.Context, user string) error {
			return c.try(Call{Port: "keys", Target: user, GivenUp: ctx.Done()}, func() error {
				return merge(ctx, user)
			})
		}
	}
	if relabel := h.Relabel; relabel != nil {
		h.Relabel = func(ctx context.Context) error {
			return c.try(Call{Port: "labels", GivenUp: ctx.Done()}, func() error { return relabel(ctx) })
		}
	}
	if h.Contents != nil {
		h.Contents = faultyContents{h.Contents, c}
	}
	return h, c
}

func (c *Counter) try(call Call, do func() error) error {
	c.N++
	call.N = c.N
	if c.fault != nil {
		if err := c.fault(call); errors.Is(err, ErrLost) {
			return errors.Join(do(), fault.NewUnknown(err))
		} else if err != nil {
			return err
		}
	}
	return do()
}

type faultyFiles struct {
	host.Files
	c *Counter
}

func (f faultyFiles) Write(p string, e host.Entry, contents []byte) error {
	return f.c.try(Call{Port: "files", Target: p}, func() error { return f.Files.Write(p, e, contents) })
}

func (f faultyFiles) Link(p string, e host.Entry) error {
	return f.c.try(Call{Port: "files", Target: p}, func() error { return f.Files.Link(p, e) })
}

func (f faultyFiles) Mkdir(p string, e host.Entry) error {
	return f.c.try(Call{Port: "files", Target: p}, func() error { return f.Files.Mkdir(p, e) })
}

func (f faultyFiles) Remove(p string) error {
	return f.c.try(Call{Port: "files", Target: p, Frees: true}, func() error { return f.Files.Remove(p) })
}

type faultyUnits struct {
	host.Units
	c *Counter
}

func (f faultyUnits) Enable(ctx context.Context, n string) error {
	return f.c.try(Call{Port: "units", Target: n, GivenUp: ctx.Done()}, func() error { return f.Units.Enable(ctx, n) })
}

func (f faultyUnits) Disable(ctx context.Context, n string) error {
	return f.c.try(Call{Port: "units", Target: n, Frees: true, GivenUp: ctx.Done()}, func() error {
		return f.Units.Disable(ctx, n)
	})
}

func (f faultyUnits) DaemonReload(ctx context.Context) error {
	return f.c.try(Call{Port: "units", Target: "", Frees: true, GivenUp: ctx.Done()}, func() error {
		return f.Units.DaemonReload(ctx)
	})
}

func (f faultyUnits) Reload(ctx context.Context, n string) error {
	return f.c.try(Call{Port: "units", Target: n, Frees: true, GivenUp: ctx.Done()}, func() error {
		return f.Units.Reload(ctx, n)
	})
}

func (f faultyUnits) Restart(ctx context.Context, n string) error {
	return f.c.try(Call{Port: "units", Target: n, Frees: true, GivenUp: ctx.Done()}, func() error {
		return f.Units.Restart(ctx, n)
	})
}

func (f faultyUnits) Stop(ctx context.Context, n string) error {
	return f.c.try(Call{Port: "units", Target: n, Frees: true, GivenUp: ctx.Done()}, func() error {
		return f.Units.Stop(ctx, n)
	})
}

type faultyPasswd struct {
	host.Passwd
	c *Counter
}

func (f faultyPasswd) SetUser(ctx context.Context, n string, want host.User, password []byte) error {
	return f.c.try(Call{Port: "users", Target: n, GivenUp: ctx.Done()}, func() error {
		return f.Passwd.SetUser(ctx, n, want, password)
	})
}

func (f faultyPasswd) SetGroup(ctx context.Context, n string, want host.Group) error {
	return f.c.try(Call{Port: "groups", Target: n, GivenUp: ctx.Done()}, func() error {
		return f.Passwd.SetGroup(ctx, n, want)
	})
}

type faultyOS struct {
	host.OperatingSystem
	c *Counter
}

func (f faultyOS) Stage(ctx context.Context, s host.Step) error {
	return f.c.try(Call{Port: "os", Target: string(s.Verb), GivenUp: ctx.Done()}, func() error {
		return f.OperatingSystem.Stage(ctx, s)
	})
}

type faultyTrust struct {
	host.TrustStore
	c *Counter
}

func (f faultyTrust) Update(ctx context.Context, program string) error {
	return f.c.try(Call{Port: "trust", Target: program, Frees: true, GivenUp: ctx.Done()}, func() error {
		return f.TrustStore.Update(ctx, program)
	})
}

type faultyPower struct {
	host.Power
	c *Counter
}

func (f faultyPower) Reboot(ctx context.Context, why string) error {
	return f.c.try(Call{Port: "power", Frees: true, GivenUp: ctx.Done()}, func() error {
		return f.Power.Reboot(ctx, why)
	})
}

type faultyJournal struct {
	host.Journal
	c *Counter
}

func (f faultyJournal) Save(r host.Record) error {
	return f.c.try(Call{Port: "journal", Target: string(r.Phase)}, func() error { return f.Journal.Save(r) })
}

func (f faultyJournal) Clear() error {
	return f.c.try(Call{Port: "journal", Frees: true}, f.Journal.Clear)
}

type faultyStore struct {
	host.Store
	c *Counter
}

func (f faultyStore) Keep(old []host.Old) error {
	return f.c.try(Call{Port: "store"}, func() error { return f.Store.Keep(old) })
}

func (f faultyStore) Sweep() error { return f.c.try(Call{Port: "store", Frees: true}, f.Store.Sweep) }

type faultyContents struct {
	host.ContentStore
	c *Counter
}

func (f faultyContents) Write(p string, e host.Entry) error {
	return f.c.try(Call{Port: "files", Target: p}, func() error { return f.ContentStore.Write(p, e) })
}

type faultyDisk struct {
	host.Disk
	c *Counter
}

func (f faultyDisk) Flush(ctx context.Context) error {
	return f.c.try(Call{Port: "disk", Frees: true, GivenUp: ctx.Done()}, func() error { return f.Disk.Flush(ctx) })
}

func (f faultyDisk) Resume(ctx context.Context, steps []host.Step) error {
	return f.c.try(Call{Port: "disk", Target: "resume", Frees: true, GivenUp: ctx.Done()}, func() error {
		return f.Disk.Resume(ctx, steps)
	})
}
