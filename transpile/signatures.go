package transpile

import (
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// signaturePolicy is a signature policy among the files of a pool's documents.
type signaturePolicy struct {
	text []byte
	at   origin.Pos
}
