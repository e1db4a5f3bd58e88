// Package tour types what the pages tell a reader to type, where the reader types it: it clones the committed tree into
// an empty folder, runs `make run` there, types every block of the pages in order into bash, and compares what comes
// with what the page shows.
//
// Each block between fences is typed (sh, bash, console), written to a file, compared with what the block before
// printed, or skipped for a reason that stands in the page. A comment of HTML before the fence says so, and readers do
// not see it. It holds one directive, or one on each line:
//
//	<!-- tour: skip REASON -->             the block cannot run here
//	<!-- tour: file PATH -->               the block is the content of this file; the folder of PATH is made
//	<!-- tour: output -->                  the block is what the commands before it printed
//	<!-- tour: output of COMMAND -->       the block is what this command prints
//	<!-- tour: replace OLD with NEW -->    the reader puts NEW, a text that bash expands, in place of OLD
//	<!-- tour: before COMMAND -->          the reader did this before. "rolled out" waits for a rollout
//	<!-- tour: prints REGEXP -->           the block prints this
//	<!-- tour: exits CODE -->              the last command of the block ends with this code instead of 0
//	<!-- tour: exits CODE COMMAND -->      the same for the commands of the block that begin so
//	<!-- tour: until REGEXP COMMAND -->    after the block, COMMAND prints this in the end; spaces in REGEXP are \s
//	<!-- tour: after COMMAND -->           after the block, the command succeeds
//	<!-- tour: terminal -->                the reader opens another terminal in the folder where the page began
//	<!-- tour: background -->              the block runs until Ctrl-C, in a terminal of its own; it ends with the page
//	<!-- tour: run -->                     the block is what the tour itself has typed first: make run
//	<!-- tour: stop -->                    the reader stopped `make run` before; it continues before the next page
//
// `console` blocks mark what to type with "$ ", and
// show what comes. In what a page shows, "…" stands for any text, and a line of it for any lines. Hashes, ages, times,
// ports, tokens and names of configs are masked on both sides.
//
// Directives find the clone in $TOUR, and an empty folder in $SCRATCH.
//
// In: the repository around this package, as it is committed, and pages of the working tree with -uncommitted. Out:
// tests. Never: a block that is neither used nor skipped for a reason; a sleep that waits for a result.
package tour
