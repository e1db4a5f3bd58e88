// Package beneath opens the directories of a machine below its root so that no local user can redirect the daemon to
// another path. The package opens a path one component at a time, each relative to the descriptor of its parent. The
// kernel never follows a link. The package follows a link itself, if the following rules about owners allow it:
//
//   - A link of root in a directory that only root can change may lead anywhere within the root.
//   - A link of another user must end in a directory of that user.
//   - Below a directory of a user, directories belong to that user or to root, and links end in directories of that user. What
//     is mounted there belongs to that user.
//   - A link of root is not followed if other users can rename in its directory: they could have moved it there.
//   - A link in /proc is not followed, because the kernel does not resolve it by its text.
//
// The uid of the process counts as root, so that an unprivileged user can run a simulated host.
//
// In: a directory, a path. Out: the descriptor of a directory, and which user can change its entries. Never: a file's
// contents; a change.
package beneath
