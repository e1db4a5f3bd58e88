package review_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

// merging returns a config that does nothing but merge another one, which is plain text, in base64, or compressed.
func merging(t *testing.T, config []byte, encoding uint8) []byte {
	t.Helper()
	named := map[string]string{"source": "data:," + dataurl.Escape(config)}
	switch encoding % 3 {
	case 1:
		named["source"] = "data:;base64," + base64.StdEncoding.EncodeToString(config)
	case 2:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(config) // a buffer takes all
		_ = w.Close()
		named["source"], named["compression"] = "data:;base64,"+base64.StdEncoding.EncodeToString(b.Bytes()), "gzip"
	}
	out, err := json.Marshal(map[string]any{"ignition": map[string]any{
		"version": "3.5.0",
		"config":  map[string]any{"merge": []any{named}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzAMergedChangeIsReviewedAsWritten: a change reads the same whether it is in the config or in one that the config
// merges.
func FuzzAMergedChangeIsReviewedAsWritten(f *testing.F) {
	for i, bodies := range [][2]string{
		{`"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,a"}}]}`, `"storage":{"files":[{"path":"/etc/a","mode":384,"contents":{"source":"data:,password=hunter22"}},{"path":"/etc/marked","contents":{"source":"data:,x"}}]}`},
		{`"storage":{"directories":[{"path":"/srv/a"}]}`, `"storage":{"links":[{"path":"/srv/a","target":"/b","hard":true},{"path":"/etc/l","target":"a"}]}`},
		{`"passwd":{"users":[{"name":"alice","uid":1500,"sshAuthorizedKeys":["k"]}]}`, `"passwd":{"users":[{"name":"alice","uid":1501,"groups":["wheel","docker"]},{"name":"guest","shouldExist":false}]}`},
		{`"systemd":{"units":[{"name":"a.service","enabled":true,"contents":"[Unit]\n"}]}`, `"systemd":{"units":[{"name":"a.service","mask":true,"dropins":[{"name":"b.conf","contents":"[Unit]\n"},{"name":"a.conf","contents":"[Service]\n"}]}]}`},
		{`"storage":{"disks":[{"device":"/dev/sdb","partitions":[{"number":1},{"label":"b"}]}]}`, `"storage":{"filesystems":[{"device":"/dev/sdb1","format":"xfs","path":"/var"}],"luks":[{"name":"l","device":"/dev/sdc","clevis":{"tpm2":true}}]},"kernelArguments":{"shouldExist":["a","b"]}`},
		{`"storage":{"files":[{"path":"/etc/a","append":[{"source":"data:,a"},{"source":"data:,a"}]}]}`, `"storage":{"files":[{"path":"/etc/a","append":[{"source":"data:,b"},{"source":"data:,a"}],"contents":{"source":""}}]}`},
		{`"storage":{"files":[{"path":"/etc/a/b"},{"path":"/etc/a"}]}`, `"storage":{"files":[{"path":"/var/lib/machine-config-daemon/a"},{"path":"/etc/a","user":{"name":"x"}}]}`},
	} {
		for encoding := range uint8(6) {
			const head = `{"ignition":{"version":"3.5.0"},`
			f.Add([]byte(head+bodies[i%2]+"}"), []byte(head+bodies[1-i%2]+"}"), encoding)
		}
	}
	f.Fuzz(func(t *testing.T, before, after []byte, encoding uint8) {
		if len(before)+len(after) > 32<<10 {
			return
		}
		pool := func(name string, raw []byte) (review.Pool, bool) {
			c, err := machineconfig.Parse(mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}})
			if err == nil {
				_, err = machineconfig.Flat(c)
			}
			return review.Pool{Rendered: "rendered-worker-" + name, Config: c, Secrets: secretmask.Paths{
				"/etc/marked",
				"marked.service",
			}}, err == nil && c.HasIgnition
		}
		from, isConfig := pool("a", before)
		to, isToo := pool("b", after)
		if !isConfig || !isToo {
			return
		}
		mergedFrom, is := pool("a", merging(t, before, encoding))
		mergedTo, isToo := pool("b", merging(t, after, encoding/3))
		if !is || !isToo {
			t.Fatal("a config can be read, and cannot be merged into an empty one")
		}
		want := compareTwo(from, to)
		for wrapped, got := range map[string]review.Comparison{
			"head": compareTwo(from, mergedTo), "base": compareTwo(mergedFrom, to),
			"both": compareTwo(mergedFrom, mergedTo),
		} {
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(review.Comparison{})); diff != "" {
				t.Errorf("with %s merged (-as written +merged):\n%s", wrapped, diff)
			}
		}
	})
}

// compareTwo compares a pool with one that takes its place.
func compareTwo(from, to review.Pool) review.Comparison {
	side := func(p review.Pool) review.Side {
		return review.Side{Policy: disruption.Default(), Pools: map[string]review.Pool{"worker": p}}
	}
	return review.Compare(side(from), side(to))
}
