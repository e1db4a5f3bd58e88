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
	// ErrReadOnly is a file system that takes no writes.
	ErrReadOnly = errors.New("read-only file system")
)

// Call is one call of a port that changes something.
type Call struct {
	// N counts from 1.
	N int
	// Port and Target say what was called.
	Port, Target string
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
	h.Units = faultyUnits{h.Units, c}
	h.Passwd = faultyPasswd{h.Passwd, c}
	h.OS = faultyOS{h.OS, c}
	h.Power = faultyPower{h.Power, c}
	h.Journal = faultyJournal{h.Journal, c}
	h.Store = faultyStore{h.Store, c}
	return h, c
}

func (c *Counter) try(port, target string, do func() error) error {
	c.N++
	if c.fault != nil {
		if err := c.fault(Call{c.N, port, target}); err != nil {
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
	return f.c.try("files", p, func() error { return f.Files.Write(p, e, contents) })
}

func (f faultyFiles) Link(p string, e host.Entry) error {
	return f.c.try("files", p, func() error { return f.Files.Link(p, e) })
}

func (f faultyFiles) Mkdir(p string, e host.Entry) error {
	return f.c.try("files", p, func() error { return f.Files.Mkdir(p, e) })
}

func (f faultyFiles) Remove(p string) error {
	return f.c.try("files", p, func() error { return f.Files.Remove(p) })
}

type faultyUnits struct {
	host.Units
	c *Counter
}

func (f faultyUnits) Enable(ctx context.Context, n string) error {
	return f.c.try("units", n, func() error { return f.Units.Enable(ctx, n) })
}

func (f faultyUnits) Disable(ctx context.Context, n string) error {
	return f.c.try("units", n, func() error { return f.Units.Disable(ctx, n) })
}

func (f faultyUnits) DaemonReload(ctx context.Context) error {
	return f.c.try("units", "", func() error { return f.Units.DaemonReload(ctx) })
}

func (f faultyUnits) Reload(ctx context.Context, n string) error {
	return f.c.try("units", n, func() error { return f.Units.Reload(ctx, n) })
}

func (f faultyUnits) Restart(ctx context.Context, n string) error {
	return f.c.try("units", n, func() error { return f.Units.Restart(ctx, n) })
}

type faultyPasswd struct {
	host.Passwd
	c *Counter
}

func (f faultyPasswd) SetUser(ctx context.Context, n string, want host.User, password []byte) error {
	return f.c.try("users", n, func() error { return f.Passwd.SetUser(ctx, n, want, password) })
}

func (f faultyPasswd) SetGroup(ctx context.Context, n string, want host.Group) error {
	return f.c.try("groups", n, func() error { return f.Passwd.SetGroup(ctx, n, want) })
}

type faultyOS struct {
	host.OperatingSystem
	c *Counter
}

func (f faultyOS) Stage(ctx context.Context, s host.Step) error {
	return f.c.try("os", string(s.Verb), func() error { return f.OperatingSystem.Stage(ctx, s) })
}

type faultyPower struct {
	host.Power
	c *Counter
}

func (f faultyPower) Reboot(ctx context.Context, why string) error {
	return f.c.try("power", "", func() error { return f.Power.Reboot(ctx, why) })
}

type faultyJournal struct {
	host.Journal
	c *Counter
}

func (f faultyJournal) Save(r host.Record) error {
	return f.c.try("journal", string(r.Phase), func() error { return f.Journal.Save(r) })
}

func (f faultyJournal) Clear() error { return f.c.try("journal", "", f.Journal.Clear) }

type faultyStore struct {
	host.Store
	c *Counter
}

func (f faultyStore) Put(contents []byte) (d host.Digest, err error) {
	err = f.c.try("store", "", func() error { d, err = f.Store.Put(contents); return err })
	return d, err
}

func (f faultyStore) Sweep() error { return f.c.try("store", "", f.Store.Sweep) }
