package host

import (
	"context"
	"errors"
)

// Errors that both hosts tell apart.
var (
	// ErrNotEmpty: a directory has something in it and was left alone.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrUnsupported: this machine cannot do that at all; trying again never helps.
	ErrUnsupported = errors.New("not supported on this machine")
)

// Host is a machine as the daemon sees it. Every field must be set.
type Host struct {
	// Files of the machine.
	Files Files
	// Units of systemd.
	Units Units
	// Passwd has the users and groups.
	Passwd Passwd
	// OS image and kernel.
	OS OperatingSystem
	// Power of the machine.
	Power Power
	// Journal of the update under way.
	Journal Journal
	// Store of old contents.
	Store Store
	// Unprivileged: owners cannot be set here, all count as root's. For simulated hosts of a user without rights.
	Unprivileged bool
}

// Files is the machine's file system. Paths are absolute and clean. Links in the way to a path are followed within the
// machine's root; a link at the path itself is not. Every change is durable when the call returns, and is either made
// whole or not at all. Making what is there already is no error.
type Files interface {
	// Stat tells what is at a path; nothing is the zero Entry, not an error.
	Stat(path string) (Entry, error)
	// Read returns a file's contents; a file that is not there is fs.ErrNotExist.
	Read(path string) ([]byte, error)
	// Write replaces a file or link. The parent directory must be there. want.Digest is not looked at.
	Write(path string, want Entry, contents []byte) error
	// Link replaces a file or link by a symlink.
	Link(path string, want Entry) error
	// Mkdir makes one directory, or gives an existing one mode and owner.
	Mkdir(path string, want Entry) error
	// Remove takes a file, link or empty directory away; ErrNotEmpty for a full directory, nil for nothing.
	Remove(path string) error
}

// Units is systemd. Names are complete: chronyd.service, getty@tty2.service.
type Units interface {
	// Status tells about a name; a unit that is not there is the zero Unit.
	Status(ctx context.Context, name string) (Unit, error)
	// Enable makes the symlinks that [Install] names, and none for the units of its Also lines: they get steps of their
	// own, so that going back knows which of them were enabled before. A unit without a file or without [Install] is an
	// error.
	Enable(ctx context.Context, name string) error
	// Disable removes every symlink that pulls the unit in, whether its file is there or not.
	Disable(ctx context.Context, name string) error
	// DaemonReload lets systemd read unit files again.
	DaemonReload(ctx context.Context) error
	// Reload lets a running service read its configuration, or restarts one that cannot; it waits for the result.
	Reload(ctx context.Context, name string) error
	// Restart restarts or starts a service and waits for the result.
	Restart(ctx context.Context, name string) error
}

// Passwd is the machine's users and groups. Making what is as wanted already is no error.
type Passwd interface {
	// User tells about a user, and the hash of its password as the shadow file has it; one that is not there is the zero
	// User.
	User(ctx context.Context, name string) (u User, password []byte, err error)
	// Group tells about a group with all its members; one that is not there is the zero Group.
	Group(ctx context.Context, name string) (Group, error)
	// SetUser makes a user be as wanted, in groups that are there; password is what has the wanted digest. The zero User is
	// removed, even one that is logged in; its home directory stays. Home directories are never made or moved.
	SetUser(ctx context.Context, name string, want User, password []byte) error
	// SetGroup makes a group be there with its number and, at least, the wanted members. The zero Group is removed.
	SetGroup(ctx context.Context, name string, want Group) error
	// Skeleton lists what a new home directory holds, parents first.
	Skeleton(ctx context.Context) ([]SkeletonFile, error)
}

// OperatingSystem is the image, the kernel and its arguments: all that a reboot changes.
type OperatingSystem interface {
	// Status tells what runs, what the next boot will have, and what can be changed.
	Status(ctx context.Context) (OSStatus, error)
	// Stage makes one part of the next boot be as the step's After. For kargs, every argument of Before and After is
	// taken out first and After is put at the end, so that staging twice is staging once; others stay.
	Stage(ctx context.Context, step Step) error
}

// OSStatus is what an OperatingSystem tells.
type OSStatus struct {
	// Booted is what runs, with all kernel arguments.
	Booted OS
	// Next is what the next boot will have; equal to Booted when nothing is staged.
	Next OS
	// Support says what Stage can do.
	Support Support
}

// Power is the machine's switch.
type Power interface {
	// BootID changes with every boot and is never empty.
	BootID() (string, error)
	// Reboot returns when the machine has accepted to go down; why is shown to whoever is logged in.
	Reboot(ctx context.Context, why string) error
}

// Journal is the one update under way, durable when a call returns.
type Journal interface {
	// Load returns nil where there is none.
	Load() (*Record, error)
	// Save replaces the record whole.
	Save(Record) error
	// Clear forgets it; nothing to forget is no error.
	Clear() error
}

// Store keeps contents by digest, readable by root only, durable when a call returns.
type Store interface {
	// Put keeps contents.
	Put(contents []byte) (Digest, error)
	// Get returns contents; those that were never put are fs.ErrNotExist.
	Get(Digest) ([]byte, error)
	// Sweep forgets everything.
	Sweep() error
}

// Phase is how far an update is.
type Phase string

// The phases, in order. Undoing may follow any but Committed.
const (
	// Applying: some of the steps may be done.
	Applying Phase = "applying"
	// Rebooting: all is done but the reboot, which was asked for or is about to be.
	Rebooting Phase = "rebooting"
	// Undoing: the way back was begun.
	Undoing Phase = "undoing"
	// Committed: the new config is in force; only the journal is left to clear.
	Committed Phase = "committed"
)

// Record is the journal's content: all that is needed to undo an update without asking anybody.
type Record struct {
	// From and To are the configs' names.
	From, To string
	// Steps in order. What they replace is in the Store.
	Steps []Step
	// Phase reached.
	Phase Phase
	// Acted: services may have been told about the new config already.
	Acted bool
	// BootID of the boot that did the steps.
	BootID string
	// Why the update is undone, where it is.
	Why string
}
