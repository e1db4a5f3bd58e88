package transpile

import (
	"regexp"
)

const (
	// defaultNumber is the number in the MachineConfig's name if the document's name begins with no number. The
	// renderer merges documents in the order of their names, and later documents override earlier documents.
	defaultNumber = "50"
	// maxNumbered is how many documents of a pool may have names that differ only in a last digit. With two digits, the
	// order would change: the name that ends with -10 sorts before the one with -2.
	maxNumbered = 10
)

var numbered = regexp.MustCompile(`^([0-9]+)-(.+)$`)

// notInNames matches what a name of a MachineConfig cannot have.
var notInNames = regexp.MustCompile(`[^a-z0-9.]+`)
