// Package beneath opens the directories of a machine below its root so that no local user can lead the daemon elsewhere. It
// opens a path one component at a time, each by the descriptor of the one before, and never lets the kernel follow a link.
// It follows a link itself, if the owners on the way allow that:
//
//   - Links of root in directories that only root can change are followed wherever they lead, within the root.
//   - A link of another user has to end in a directory of that user.
//   - Below a directory of a user, directories belong to that user or to root, and links end in directories of that user. What
//     is mounted there belongs to that user.
//   - A link of root in a directory that others can rename in is not followed, because they could have put it there.
//   - Links of /proc are not followed: the kernel resolves them by other rules than their text.
//
// The uid of the process counts as root, so that a simulated host of an unprivileged user is its own.
//
// In: a directory, a path. Out: the descriptor of a directory, and who can change what is in it. Never: a file's contents; a
// change.
package beneath
