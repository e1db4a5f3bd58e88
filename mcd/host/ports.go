package host

import (
	"context"
	"errors"
)

// Errors of every host.
var (
	// ErrNotEmpty reports that a directory is not empty and was not removed.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrUnsupported reports that the machine does not support an operation; a retry has no effect.
	ErrUnsupported = errors.New("not supported on this machine")
)

// Host is a machine as the daemon sees it. Every field must be set.
type Host struct {
	// Files is the file system.
	Files Files
	// Disk makes changes of the file system durable.
	Disk Disk
	// Units are the units of systemd.
	Units Units
	// Passwd has the users and groups.
	Passwd Passwd
	// OS is the OS image and the kernel.
	OS OperatingSystem
	// Trust is the machine's store of certificates.
	Trust TrustStore
	// Power reboots the machine.
	Power Power
	// Journal of the update under way.
	Journal Journal
	// Store has the data that the update replaces.
	Store Store
	// Contents has downloaded contents. Contents is nil on a host that downloads nothing.
	Contents ContentStore
	// Same reports whether two paths are names of one existing file. Same is nil on a host without hard links.
	Same func(a, b string) (bool, error)
	// MergeKeys lets the machine's own program write the file with SSH keys that sshd reads, from the files of the
	// config and of other programs. If the user has no such file, MergeKeys removes what the program wrote before. A
	// repeated call succeeds. MergeKeys is nil on a host that does not run.
	MergeKeys func(ctx context.Context, user string) error
	// SSHSettings asks the machine's sshd where it looks for the SSH keys of a user. SSHSettings is nil on a host that
	// does not run.
	SSHSettings func(ctx context.Context, user string) (SSHSettings, error)
	// Relabel gives the files, directories and links that were made since the last call the labels that the security
	// policy of the machine has for their paths. The kernel gave them those of their directories. Files that have
	// replaced others keep the labels of these. Relabel is nil on a host without a policy.
	Relabel func(ctx context.Context) error
	// Unprivileged is true on a simulated host of a user who cannot set owners. All files then count as files of root.
	Unprivileged bool
}

// SSHSettings are settings of sshd for a user, as sshd_config(5) writes them.
type SSHSettings struct {
	// KeysFile is AuthorizedKeysFile: paths with a blank between them.
	KeysFile string
	// KeysCommand is AuthorizedKeysCommand; "none" without one.
	KeysCommand string
}

// Files is the machine's file system.
//
// Paths are absolute and clean. The host follows links in the directories of a path, within the machine's root, and not
// a link at the path itself. A change is atomic, and visible when the call returns. A change is durable when the call
// returns; after Disk.Batch, it is durable only after Disk.Flush. A repeated change succeeds. A path that a user of the
// machine could redirect to files of another owner is an *UnsafePathError.
type Files interface {
	// Stat returns the entry at a path. If the path does not exist, Stat returns the zero Entry. Nothing exists behind
	// links that lead to each other.
	Stat(path string) (Entry, error)
	// Read returns a file's contents, or fs.ErrNotExist.
	Read(path string) ([]byte, error)
	// Write replaces a file or link. The parent directory must exist. Write ignores want.Digest.
	Write(path string, want Entry, contents []byte) error
	// Link replaces a file or link by a symlink or, for an entry of kind Hard, by a hard link to its Target.
	Link(path string, want Entry) error
	// Mkdir creates a directory, or sets the mode and owner of an existing directory.
	Mkdir(path string, want Entry) error
	// Remove removes a file, link or empty directory. For a directory with entries, Remove returns ErrNotEmpty. For a
	// path that does not exist, Remove returns nil.
	Remove(path string) error
}

// Disk makes changes of Files durable, and the file changes of Units and Passwd. A batch of many changes costs about as
// much as one change. After a power cut in a batch, each change since the last Flush may exist or be missing, or the
// file may be empty. The files of Passwd are never empty.
type Disk interface {
	// Batch allows the next changes to be durable only at Flush. The caller must be able to undo them after a power cut
	// before Flush.
	Batch()
	// Flush makes durable all changes of this process, and the changes that Resume took over from an earlier process.
	// Flush also ends the batch. Flush does not stop when the context ends. After an error, any of the changes may not
	// be durable, and the next Flush retries all of them.
	Flush(ctx context.Context) error
	// Resume takes over the steps of a process that died: it removes temporary files beside the targets, and the next
	// Flush treats all targets as changed.
	Resume(ctx context.Context, steps []Step) error
	// Blockers returns what would stop the steps, as the machine is now, and changes nothing. The parameter size
	// returns the bytes of contents. What Blockers does not find can still fail.
	Blockers(steps []Step, size func(Digest) int64) []Blocker
}

// Units gives access to the units of systemd. Names of units are complete: chronyd.service, getty@tty2.service.
type Units interface {
	// Status returns a unit; the zero Unit if it does not exist.
	Status(ctx context.Context, name string) (Unit, error)
	// Enable creates the symlinks that [Install] names. Enable does not enable the units of Also=, because these units
	// have steps of their own, so that a rollback knows which of them were enabled before. A unit without a file or
	// without [Install] is an error.
	Enable(ctx context.Context, name string) error
	// Disable removes every symlink that enables the unit, even if its file does not exist.
	Disable(ctx context.Context, name string) error
	// Blockers returns what would stop the steps about units, as the machine is now, and changes nothing. The parameter
	// install has the [Install] sections of the units that the steps enable, as they are then. The result links has the
	// links that the steps make and remove, as steps for Disk.Blockers.
	Blockers(steps []Step, install map[string]string) (found []Blocker, links []Step)
	// DaemonReload makes systemd read unit files again.
	DaemonReload(ctx context.Context) error
	// Reload reloads a running service, or restarts one that does not support it, and waits for the result.
	Reload(ctx context.Context, name string) error
	// Restart restarts or starts a service and waits for the result.
	Restart(ctx context.Context, name string) error
	// Stop stops a service, waits for the result, and lets systemd forget that the service failed before. The unit may
	// have no file any more, or may not exist.
	Stop(ctx context.Context, name string) error
}

// Passwd gives access to the machine's users and groups. A repeated change succeeds.
type Passwd interface {
	// User returns a user, and the hash of the password from the shadow file; the zero User if it does not exist.
	User(ctx context.Context, name string) (u User, password []byte, err error)
	// Group returns a group with all its members; the zero Group if it does not exist.
	Group(ctx context.Context, name string) (Group, error)
	// SetUser creates or changes a user, in groups that exist. The parameter password must have the digest in want. If
	// want is the zero User, SetUser removes the user, even while the user is logged in. SetUser does not create, move
	// or remove home directories.
	SetUser(ctx context.Context, name string, want User, password []byte) error
	// SetGroup creates or changes a group with its number and at least the wanted members. SetGroup removes the group
	// if want is the zero Group.
	SetGroup(ctx context.Context, name string, want Group) error
	// Skeleton lists the content of a new home directory, parents first.
	Skeleton(ctx context.Context) ([]SkeletonFile, error)
}

// OperatingSystem gives access to the OS image, the kernel and its arguments, which change with a reboot.
type OperatingSystem interface {
	// Status returns the running OS, the OS of the next boot, and the parts of the OS that the machine can change.
	Status(ctx context.Context) (OSStatus, error)
	// Stage sets one part of the next boot to the step's After. For kernel arguments, Stage removes the arguments in
	// Before and After, and adds After at the end, so that a second call changes nothing. Other arguments stay.
	// Arguments in Support.OwnKargs stay too: After begins with those of them that are in Before or After.
	Stage(ctx context.Context, step Step) error
}

// ImageDownloader is an OperatingSystem that can download an image before it stages the image.
type ImageDownloader interface {
	// Download downloads an OS image for a later Stage, and does not change the next boot. If the machine has the
	// image, Download does nothing. Download returns ErrUnsupported if the machine can only download an image when it
	// stages it.
	Download(ctx context.Context, image string) error
}

// BootWriter is an OperatingSystem that writes files of the boot loader itself, or lets a program write them.
type BootWriter interface {
	// BootFiles returns the files that the steps would write when they are staged, as steps.
	BootFiles(steps []Step) []Step
}

// BootChecker is an OperatingSystem that can run out of space for what the boot loader reads.
type BootChecker interface {
	// BootSpace returns the space for the boot loader's files; the zero BootSpace if the steps need none, or if nothing
	// is known.
	BootSpace(steps []Step) BootSpace
}

// OSStatus is the state of an OperatingSystem.
type OSStatus struct {
	// Booted is the running OS, with all kernel arguments.
	Booted OS
	// Next is the OS of the next boot. Next equals Booted if no OS is staged.
	Next OS
	// Support lists the parts of the OS that Stage can change.
	Support Support
}

// TrustStore is the machine's store of the certificates that its programs trust.
type TrustStore interface {
	// Update runs a program, such as update-ca-trust, which reads the certificates of the administrator again. Update
	// waits for the result. A repeated call succeeds.
	Update(ctx context.Context, program string) error
}

// Power reboots the machine.
type Power interface {
	// BootID changes with every boot and is never empty.
	BootID() (string, error)
	// Reboot requests a reboot and returns when the machine has accepted it, or goes down anyway. Logged-in users see
	// the text why. After an error that fault.IsUnknown reports, the machine may have accepted it: ask GoingDown before
	// you decide anything. After any other error, the machine does not go down because of this request.
	Reboot(ctx context.Context, why string) error
	// GoingDown reports whether the machine is about to shut down or reboot. After an error, this is unknown.
	GoingDown(ctx context.Context) (bool, error)
}

// Journal stores the current update. A change is durable when the call returns.
type Journal interface {
	// Load returns nil if there is no update.
	Load() (*Record, error)
	// Save replaces the record.
	Save(Record) error
	// Clear removes the record. Clear succeeds even if there is no record.
	Clear() error
}

// Store stores the data that an update replaces. Only root can read it.
type Store interface {
	// Keep replaces the content of the store, at the cost of about one flush. The content is durable when the next
	// Journal.Save has returned.
	Keep(old []Old) error
	// Get returns contents, or fs.ErrNotExist.
	Get(Digest) ([]byte, error)
	// Sweep empties the store.
	Sweep() error
}

// ContentStore has the contents of remote files that were downloaded and verified. Only root can read it.
type ContentStore interface {
	// Size returns the bytes of contents. The value has is false if the store does not have them. Size does not read
	// them.
	Size(Digest) (bytes int64, has bool, _ error)
	// Write replaces a file or link by a file with the contents of want.Digest, as Files.Write does. Write never holds
	// all of the contents in memory. Contents that do not match their digest are an error, and the path does not
	// change.
	Write(path string, want Entry) error
}

// Old is a file or password that an update replaces.
type Old struct {
	// Path is the path of a file; the store reads its contents and extended attributes. Path is "" for a password.
	Path string
	// Digest is the expected digest. If the file has other contents, it has changed since the observation, and Keep
	// returns an error.
	Digest Digest
	// Contents is the hash of a password.
	Contents []byte
	// Downloaded is true if the ContentStore has the contents, so that the Store reads only the extended attributes.
	Downloaded bool
}

// Phase is the phase of an update.
type Phase string

// The phases. If there is no journal, no update is under way. RollingBack may follow every other phase, RollbackReboot
// only RollingBack.
const (
	// Applying means that some of the steps may be done.
	Applying Phase = "applying"
	// Rebooting means that all steps are done except the reboot, which is requested now.
	Rebooting Phase = "rebooting"
	// CheckingHealth means that all steps are done, without a reboot, and the health check runs.
	CheckingHealth Phase = "judging"
	// RollingBack means that the rollback has started.
	RollingBack Phase = "undoing"
	// RollbackReboot means that all steps are undone, and a reboot ends the rollback.
	RollbackReboot Phase = "returning"
)

// Cause is why an update was rolled back, if another attempt could fail in the same way.
type Cause string

// The causes. An update that is rolled back because a step failed has no cause.
const (
	// NotBooted means that the machine rebooted without the staged OS.
	NotBooted Cause = "not-booted"
	// Unhealthy means that the health check failed with the new config.
	Unhealthy Cause = "unhealthy"
	// Interrupted means that the machine or the daemon went down during the steps.
	Interrupted Cause = "interrupted"
)

// Record is the content of the journal: all data that the rollback of an update needs.
type Record struct {
	// From and To are the names of the configs.
	From, To string
	// Steps are the steps in order. The Store has the data that they replace.
	Steps []Step
	// Phase of the update.
	Phase Phase
	// Acted is true if services may have been reloaded or restarted with the new config.
	Acted bool
	// Booted is true if the machine may have booted with the new config, so that the rollback needs a reboot.
	Booted bool
	// BootID is the boot that applied the steps or, in the phase RollbackReboot, the boot that undid them.
	BootID string
	// Why is the reason for the rollback.
	Why string
	// Cause of the rollback; empty for a failed step.
	Cause Cause
	// Returns counts the reboots of the rollback.
	Returns int
	// Drained is true if the node was drained for the update.
	Drained bool `json:",omitempty"`
}
