package apply_test

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// brokenContents is a content store on a disk that fails.
type brokenContents struct{ host.ContentStore }

// Size implements host.ContentStore.
func (brokenContents) Size(d host.Digest) (bytes int64, has bool, _ error) {
	return 0, false, &fs.PathError{Op: "stat", Path: host.StateDir + "/content/" + string(d), Err: syscall.EIO}
}

// TestAnErrorHasNoDigest: errors reach the Node, and the digest of a short secret says which secret it is.
func TestAnErrorHasNoDigest(t *testing.T) {
	h := hosttest.NewMachine().Host()
	source := "data:,hush"
	var c machineconfig.Config
	f := ign.File{Node: ign.Node{Path: "/etc/app.conf"}}
	f.Contents.Source = &source
	c.Ignition.Storage.Files = []ign.File{f}
	p, _ := planOn(t, h, way(t, h, machineconfig.Config{}, c))
	bring(t, h, named(way(t, h, machineconfig.Config{}, c), "rendered-a"))
	// A file that the machine has, and that the store may have too.
	p.Steps[len(p.Steps)-1].Before.Entry = host.Entry{Kind: host.File, Digest: host.DigestOf([]byte("hush"))}
	h.Contents = brokenContents{h.Contents}
	_, err := (apply.Runner{Host: h}).Run(t.Context(), p, nil)
	if !errors.Is(err, syscall.EIO) || strings.Contains(err.Error(), string(host.DigestOf([]byte("hush")))[:8]) {
		t.Error(err)
	}
}
