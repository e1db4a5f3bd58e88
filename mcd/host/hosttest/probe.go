package hosttest

import (
	"context"
	"errors"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// probe calls a host and compares the results.
type probe struct {
	t *testing.T
	h host.Host
}

func (p probe) ctx() context.Context { return p.t.Context() }

func (p probe) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// fails requires that a call returns an error. If kind is set, the error must be of this kind.
func (p probe) fails(err, kind error) {
	p.t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) {
		p.t.Errorf("got error %v, want %v", err, kind)
	}
}

func (p probe) write(at string, mode uint32, text string) {
	p.t.Helper()
	p.ok(p.h.Files.Write(at, host.Entry{Mode: mode}, []byte(text)))
}

func (p probe) is(at string, want host.Entry) {
	p.t.Helper()
	if got, err := p.h.Files.Stat(at); err != nil || got != want {
		p.t.Errorf("%s is %+v, %v; want %+v", at, got, err, want)
	}
}

func (p probe) unit(name string, want host.Unit) {
	p.t.Helper()
	if got, err := p.h.Units.Status(p.ctx(), name); err != nil || got != want {
		p.t.Errorf("%s is %+v, %v; want %+v", name, got, err, want)
	}
}

// installs compares the effective [Install] section of a unit.
func (p probe) installs(name, install, vendor string) {
	p.t.Helper()
	if got, err := p.h.Units.Status(p.ctx(), name); err != nil || got.Install != install || got.Vendor != vendor {
		p.t.Errorf("of %s, %q and without the administrator's files %q counts, %v; want %q and %q", name, got.Install,
			got.Vendor, err, install, vendor)
	}
}

func (p probe) kept(d host.Digest, want string) {
	p.t.Helper()
	if got, err := p.h.Store.Get(d); err != nil || string(got) != want {
		p.t.Errorf("the store has %q, %v; want %q", got, err, want)
	}
}

func (p probe) journal(want *host.Record) {
	p.t.Helper()
	got, err := p.h.Journal.Load()
	p.ok(err)
	if (got == nil) != (want == nil) {
		p.t.Fatalf("journal has %+v, want %+v", got, want)
	}
	if got == nil {
		return
	}
	if len(got.Steps) != len(want.Steps) || len(got.Steps) > 0 && got.Steps[0] != want.Steps[0] {
		p.t.Errorf("journal has steps %+v, want %+v", got.Steps, want.Steps)
	}
	if got.From != want.From || got.To != want.To || got.Phase != want.Phase || got.Acted != want.Acted ||
		got.BootID != want.BootID || got.Why != want.Why {
		p.t.Errorf("journal has %+v, want %+v", got, want)
	}
}

func (p probe) user(name string, want host.User) {
	p.t.Helper()
	if got, _, err := p.h.Passwd.User(p.ctx(), name); err != nil || got != want {
		p.t.Errorf("user %s is %+v, %v; want %+v", name, got, err, want)
	}
}

func (p probe) group(name string, want host.Group) {
	p.t.Helper()
	if got, err := p.h.Passwd.Group(p.ctx(), name); err != nil || got != want {
		p.t.Errorf("group %s is %+v, %v; want %+v", name, got, err, want)
	}
}

// account creates a user with a password hash.
func (p probe) account(name string, want host.User, hash string) host.User {
	p.t.Helper()
	want.There, want.Password = true, host.DigestOf([]byte(hash))
	for range 2 {
		p.ok(p.h.Passwd.SetUser(p.ctx(), name, want, []byte(hash)))
		p.user(name, want)
	}
	return want
}
