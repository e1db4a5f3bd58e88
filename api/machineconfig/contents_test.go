package machineconfig_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/vincent-petithory/dataurl"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

func TestContentsDecodesAsIgnitionDoes(t *testing.T) {
	for name, source := range map[string]string{
		"plain":                  "data:,hello",
		"escaped":                "data:,a%20b%0A%2C,c+d",
		"base64":                 "data:;base64,aGVsbG8=",
		"media type":             "data:text/plain;charset=utf-8;base64,aGVsbG8=",
		"quoted comma in a type": `data:text/plain;a="b,c",x`,
		"empty":                  "data:,",
		"bytes beyond ASCII":     "data:,%C3%A4%FF",
	} {
		t.Run(name, func(t *testing.T) {
			want, err := dataurl.DecodeString(source)
			if err != nil {
				t.Fatal(err)
			}
			got, err := machineconfig.Contents(ign.Resource{Source: &source})
			if err != nil || !bytes.Equal(got, want.Data) {
				t.Errorf("got %q, %v; want %q", got, err, want.Data)
			}
		})
	}
}

func TestContentsOfNothingIsEmpty(t *testing.T) {
	if got, err := machineconfig.Contents(ign.Resource{}); err != nil || len(got) != 0 {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestContentsStopsAtABomb(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	zeros := make([]byte, 1<<20)
	for range machineconfig.MaxContents>>20 + 1 {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	source, gz := "data:;base64,"+base64.StdEncoding.EncodeToString(zipped.Bytes()), "gzip"
	_, err := machineconfig.Contents(ign.Resource{Source: &source, Compression: &gz})
	if err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a","contents":{"source":"data:,x"}}]}}`))
	f.Add([]byte(`{"ignition":{"version":"3.0.0"},"systemd":{"units":[{"name":"a.service","dropins":[{}]}]}}`))
	f.Add([]byte(
		`{"ignition":{"version":"3.2.0","config":{"replace":{"source":null}}},"passwd":{"users":[{"name":"a"}]}}`))
	f.Add([]byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"relative"}],"luks":[{"name":"a"}]}}`))
	f.Add([]byte(`{"ignition":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		cfg, err := machineconfig.Parse(spec(string(raw)))
		if err != nil {
			return
		}
		machineconfig.Check(cfg)
		first, err := cfg.Spec()
		if err != nil {
			t.Fatal(err)
		}
		again, err := machineconfig.Parse(first)
		if err != nil {
			t.Fatalf("the canonical form of a good config is refused: %v\n%s", err, first.Config.Raw)
		}
		second, err := again.Spec()
		if err != nil || !bytes.Equal(first.Config.Raw, second.Config.Raw) {
			t.Fatalf("the canonical form is not stable:\n%s\n%s", first.Config.Raw, second.Config.Raw)
		}
	})
}
