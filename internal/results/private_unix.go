//go:build unix

package results

// writableByOthers are bits of a mode. Whoever can write results decides what a check finds.
const writableByOthers = 0o022
