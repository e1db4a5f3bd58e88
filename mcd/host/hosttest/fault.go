package hosttest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Errors that the wrappers give.
var (
	// ErrCrashed: the process is dead; nothing that it does from now on happens.
	ErrCrashed = errors.New("crashed")
	// ErrInjected is a failure that a test asked for.
	ErrInjected = errors.New("injected failure")
	// ErrFull is a disk without room.
	ErrFull = errors.New("the disk is full")
	// ErrReadOnly is a file system that takes no writes.
	ErrReadOnly = errors.New("read-only file system")
)

// Call is one call of a port that changes something.
type Call struct {
	// N counts from 1.
	N int
	// Port and Target say what was called.
	Port, Target string
	// Frees tells that it takes no room on the disk.
	Frees bool
	// GivenUp is closed when the caller's context ends; nil for a port that asks for none.
	GivenUp <-chan struct{}
}

// Fault decides before each changing call whether it happens.
type Fault func(Call) error

// FailNth makes the n-th change fail, and no other.
func FailNth(n int) Fault {
	return func(c Call) error {
		if c.N == n {
			return fmt.Errorf("%s %s: %w", c.Port, c.Target, ErrInjected)
		}
		return nil
	}
}

// CrashAfter lets n changes happen and none after.
func CrashAfter(n int) Fault {
	return func(c Call) error {
		if c.N > n {
			return ErrCrashed
		}
		return nil
	}
}

// FailFrom makes the n-th change and all after it fail with an error.
func FailFrom(n int, err error) Fault {
	return func(c Call) error {
		if c.N >= n {
			return fmt.Errorf("%s %s: %w", c.Port, c.Target, err)
		}
		return nil
	}
}

// FullFrom lets the disk be full from the n-th change on: only what takes no room still happens.
func FullFrom(n int) Fault {
	return func(c Call) error {
		if c.N >= n && !c.Frees {
			return fmt.Errorf("%s %s: %w", c.Port, c.Target, ErrFull)
		}
		return nil
	}
}

// HangFrom makes ports that take a context not answer before it ends, from the n-th change on; hung is told when one
// begins to.
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

// ReadOnlyPath makes changes of files at or below a path fail.
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
	// N is the number of calls so far, those that failed included.
	N int

	fault Fault
}

// Wrap puts a fault before every changing call of a host. A nil fault only counts.
func Wrap(h host.Host, fault Fault) (host.Host, *Counter) {
	c := &Counter{fault: fault}
	h.Files = faultyFiles{h.Files, c}
	h.Disk = faultyDisk{h.Disk, c}
	h.Units = faultyUnits{h.Units, c}
	h.Passwd = faultyPasswd{h.Passwd, c}
	h.OS = faultyOS{h.OS, c}
	h.Power = faultyPower{h.Power, c}
	h.Journal = faultyJournal{h.Journal, c}
	h.Store = faultyStore{h.Store, c}
	return h, c
}

func (c *Counter) try(call Call, do func() error) error {
	c.N++
	call.N = c.N
	if c.fault != nil {
		if err := c.fault(call); err != nil {
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
	return f.c.try(Call{Port: "units", Target: n, Frees: true, GivenUp: ctx.Done()}, func() error { return f.Units.Disable(ctx, n) })
}

func (f faultyUnits) DaemonReload(ctx context.Context) error {
	return f.c.try(Call{Port: "units", Target: "", Frees: true, GivenUp: ctx.Done()}, func() error { return f.Units.DaemonReload(ctx) })
}

func (f faultyUnits) Reload(ctx context.Context, n string) error {
	return f.c.try(Call{Port: "units", Target: n, Frees: true, GivenUp: ctx.Done()}, func() error { return f.Units.Reload(ctx, n) })
}

func (f faultyUnits) Restart(ctx context.Context, n string) error {
	return f.c.try(Call{Port: "units", Target: n, Frees: true, GivenUp: ctx.Done()}, func() error { return f.Units.Restart(ctx, n) })
}

type faultyPasswd struct {
	host.Passwd
	c *Counter
}

func (f faultyPasswd) SetUser(ctx context.Context, n string, want host.User, password []byte) error {
	return f.c.try(Call{Port: "users", Target: n, GivenUp: ctx.Done()}, func() error { return f.Passwd.SetUser(ctx, n, want, password) })
}

func (f faultyPasswd) SetGroup(ctx context.Context, n string, want host.Group) error {
	return f.c.try(Call{Port: "groups", Target: n, GivenUp: ctx.Done()}, func() error { return f.Passwd.SetGroup(ctx, n, want) })
}

type faultyOS struct {
	host.OperatingSystem
	c *Counter
}

func (f faultyOS) Stage(ctx context.Context, s host.Step) error {
	return f.c.try(Call{Port: "os", Target: string(s.Verb), GivenUp: ctx.Done()}, func() error { return f.OperatingSystem.Stage(ctx, s) })
}

type faultyPower struct {
	host.Power
	c *Counter
}

func (f faultyPower) Reboot(ctx context.Context, why string) error {
	return f.c.try(Call{Port: "power", Frees: true, GivenUp: ctx.Done()}, func() error { return f.Power.Reboot(ctx, why) })
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

type faultyDisk struct {
	host.Disk
	c *Counter
}

func (f faultyDisk) Flush(ctx context.Context) error {
	return f.c.try(Call{Port: "disk", Frees: true, GivenUp: ctx.Done()}, func() error { return f.Disk.Flush(ctx) })
}

func (f faultyDisk) Resume(ctx context.Context, steps []host.Step) error {
	return f.c.try(Call{Port: "disk", Target: "resume", Frees: true, GivenUp: ctx.Done()}, func() error { return f.Disk.Resume(ctx, steps) })
}
