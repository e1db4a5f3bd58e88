package ignition

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// memoryFile is a file in memory.
type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

// TestAMachineIsBornWithAFileOfTheContentStore boots machines whose config names a large file by its hash, and a file
// of a registry. The server cannot send the files at first, and Ignition tries again. The server's CA is known to
// Ignition from the config alone for that request.
func TestAMachineIsBornWithAFileOfTheContentStore(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcde\n"), 1<<19)
	sum := sha512.Sum512(large)
	hash := "sha512-" + hex.EncodeToString(sum[:])
	artifact := machineconfig.Artifact{
		Registry: "registry.example.com:5000", Repository: "tools/tool", Tag: "v1",
		Digest: "sha256:" + strings.Repeat("0a", 32),
	}
	for name, n := range judges(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.pools.SetContentStore()
			var requests atomic.Int64
			s.open = func(_ context.Context, asked string) (io.ReadSeekCloser, int64, error) {
				if requests.Add(1) <= 2 || asked != hash && asked != strings.Replace(artifact.String(), ":v1", "", 1) {
					return nil, 0, fmt.Errorf("%w: a chunk is missing", mcs.ErrContentUnavailable)
				}
				return memoryFile{bytes.NewReader(large)}, int64(len(large)), nil
			}
			mc := poolConfig(t)
			config, err := machineconfig.Parse(mc.Spec)
			if err != nil {
				t.Fatal(err)
			}
			for path, source := range map[string]string{
				"/etc/born/stored":   machineconfig.StoredSource(hash),
				"/etc/born/artifact": artifact.Source(),
			} {
				mode := 0o600
				config.Ignition.Storage.Files = append(config.Ignition.Storage.Files,
					ign.File{Node: ign.Node{Path: path}, FileEmbedded1: ign.FileEmbedded1{
						Mode: &mode, Contents: ign.Resource{
							Source:       &source,
							Verification: ign.Verification{Hash: &hash},
						},
					}})
			}
			if mc.Spec, err = config.Spec(); err != nil {
				t.Fatal(err)
			}
			if err := s.pools.Set("worker", mc); err != nil {
				t.Fatal(err)
			}
			pass, kept := s.grant(join.TokenOptions{Pool: "worker", Node: "a", TTL: time.Hour, Uses: 1})
			s.kept[kept.Name] = kept
			s.start()
			root := n.empty(t)
			log, err := n.start(t, root, s.pointer(pass.String(), func(p *join.Pointer) { n.reads(p) }))
			if err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			wantBorn(t, root)
			for _, name := range []string{"stored", "artifact"} {
				got, err := os.ReadFile(filepath.Join(root, "etc/born", name))
				if err != nil || !bytes.Equal(got, large) {
					t.Errorf("the file %s has %d bytes, %v", name, len(got), err)
				}
			}
			if requests.Load() != 4 {
				t.Errorf("it was requested %d times", requests.Load())
			}
			if n.speaks != mcs.V2_2 && (strings.Contains(log, "?grant=") || strings.Contains(log, "Bunsen-Content")) {
				t.Errorf("Ignition's log has the grant:\n%s", log)
			}
		})
	}
}
