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
	// Disk below them.
	Disk Disk
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
	// Same tells whether two paths are names of one file; two of nothing are not. Nil: no file here has two names.
	Same func(a, b string) (bool, error)
	// Unprivileged: owners cannot be set here, all count as root's. For simulated hosts of a user without rights.
	Unprivileged bool
}

// Files is the machine's file system. Paths are absolute and clean. Links in the way to a path are followed within the
// machine's root; a link at the path itself is not. Every change is made whole or not at all, and is seen by everybody when
// the call returns. It is durable then too, unless Disk.Batch was called: then when Disk.Flush has returned. Making what is
// there already is no error. A path that a user of the machine could lead to files of another owner is an *UnsafePathError.
type Files interface {
	// Stat tells what is at a path; nothing is the zero Entry, not an error.
	Stat(path string) (Entry, error)
	// Read returns a file's contents; a file that is not there is fs.ErrNotExist.
	Read(path string) ([]byte, error)
	// Write replaces a file or link. The parent directory must be there. want.Digest is not looked at.
	Write(path string, want Entry, contents []byte) error
	// Link replaces a file or link by a symlink, or, where want is of kind Hard, by a further name of what is at its Target.
	Link(path string, want Entry) error
	// Mkdir makes one directory, or gives an existing one mode and owner.
	Mkdir(path string, want Entry) error
	// Remove takes a file, link or empty directory away; ErrNotEmpty for a full directory, nil for nothing.
	Remove(path string) error
}

// Disk is where changes of Files, and of Units and Passwd as far as they are files, become durable: each for itself, or many
// together, which costs about as much. A power cut in a batch loses any of the changes since the Flush before: each may be
// there, or not, or be an empty file. The files of Passwd are never empty.
type Disk interface {
	// Batch lets the changes from now on wait for the next Flush. Who begins a batch knows how to take it back after a
	// power cut.
	Batch()
	// Flush makes all changes of this process durable, and those of the process before that Resume took over, and ends the
	// batch. It goes on when the context ends. After an error nobody knows what is durable; the next Flush tries all of it
	// again.
	Flush(ctx context.Context) error
	// Resume takes over the steps of a process that died: what it left half done beside their targets is removed, and the
	// next Flush counts whatever the steps are about as changed. Nothing of that is no error.
	Resume(ctx context.Context, steps []Step) error
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

// Store keeps what an update replaces, readable by root only, until it is swept.
type Store interface {
	// Keep forgets what was kept before and keeps these, at the cost of about one flush. They are durable when the next
	// Journal.Save has returned.
	Keep(old []Old) error
	// Get returns contents; those that were not kept are fs.ErrNotExist.
	Get(Digest) ([]byte, error)
	// Sweep forgets everything.
	Sweep() error
}

// Old is something that an update is about to replace.
type Old struct {
	// Path of a file: the store reads it, and what is attached to it, which comes back with it. "" for what is no file.
	Path string
	// Digest of the contents. A file that has others is an error: it has changed since it was looked at.
	Digest Digest
	// Contents of what is no file.
	Contents []byte
}

// Phase is how far an update is.
type Phase string

// The phases. Without a journal, a config is in force. Undoing may follow any of the others, Returning only Undoing.
const (
	// Applying: some of the steps may be done.
	Applying Phase = "applying"
	// Rebooting: all is done but the reboot, which was asked for or is about to be.
	Rebooting Phase = "rebooting"
	// Judging: all is done without a reboot; whether the machine is healthy with it is not known yet.
	Judging Phase = "judging"
	// Undoing: the way back was begun.
	Undoing Phase = "undoing"
	// Returning: all is taken back but for a reboot, which was asked for or is about to be.
	Returning Phase = "returning"
)

// Cause is why a config is not to be tried again.
type Cause string

// The causes. An update of which a step failed has none.
const (
	// NotBooted: the machine came back from its reboot without what was staged.
	NotBooted Cause = "not-booted"
	// Unhealthy: the new config was in place, and the machine is not healthy with it.
	Unhealthy Cause = "unhealthy"
	// Interrupted: the machine or the daemon went down while its steps were done.
	Interrupted Cause = "interrupted"
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
	// Booted: the machine may run the new config since a boot, so that going back takes a reboot too.
	Booted bool
	// BootID of the boot that did the steps; of one that is Returning, of the boot that took them back.
	BootID string
	// Why the update is undone, where it is.
	Why string
	// Cause of that, where the config is at fault.
	Cause Cause
	// Returns counts the reboots of the way back.
	Returns int
}
