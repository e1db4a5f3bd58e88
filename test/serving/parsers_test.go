package serving_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v22 "github.com/coreos/ignition/config/v2_2"
	v30 "github.com/coreos/ignition/v2/config/v3_0"
	v31 "github.com/coreos/ignition/v2/config/v3_1"
	v32 "github.com/coreos/ignition/v2/config/v3_2"
	v33 "github.com/coreos/ignition/v2/config/v3_3"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	v36 "github.com/coreos/ignition/v2/config/v3_6"
	"github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/report"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// read does with a served config what the Ignition of each version does: it parses, and merges into the pointer.
var read = map[mcs.Version]func(pool string, body []byte) error{
	mcs.V2_2: appended,
	mcs.V3_0: merged(mcs.V3_0, v30.Parse, v30.Parse, v30.Merge),
	mcs.V3_1: merged(mcs.V3_1, v31.Parse, v31.ParseCompatibleVersion, v31.Merge),
	mcs.V3_2: merged(mcs.V3_2, v32.Parse, v32.ParseCompatibleVersion, v32.Merge),
	mcs.V3_3: merged(mcs.V3_3, v33.Parse, v33.ParseCompatibleVersion, v33.Merge),
	mcs.V3_4: merged(mcs.V3_4, v34.Parse, v34.ParseCompatibleVersion, v34.Merge),
	mcs.V3_5: merged(mcs.V3_5, ign.Parse, ign.ParseCompatibleVersion, ign.Merge),
}

type parser[C any] func([]byte) (C, report.Report, error)

// merged reads a config by the parser of its version, and merges it into a pointer of that version and into the one
// that people get: in its own version, and in that of today's Ignition, which raises both to its newest.
func merged[C any](v mcs.Version, parse, parseOlder parser[C], merge func(parent, child C) C) func(string,
	[]byte) error {
	return func(pool string, body []byte) error {
		child, rpt, err := parse(body)
		if err != nil || remarks(rpt) != "" {
			return fmt.Errorf("its parser says %w\n%s", err, rpt.String())
		}
		newest, rpt, err := v36.ParseCompatibleVersion(body)
		if err != nil {
			return fmt.Errorf("today's parser says %w\n%s", err, rpt.String())
		}
		for _, p := range slices.Compact([]mcs.Version{min(v, join.DefaultPointerVersion), v}) {
			text, err := point(pool, p)
			if err != nil {
				return err
			}
			parent, _, err := parseOlder(text)
			if err != nil {
				return fmt.Errorf("the pointer in %s: %w", p, err)
			}
			if rpt := validate.ValidateWithContext(merge(parent, child), nil); rpt.IsFatal() {
				return fmt.Errorf("merged into a pointer of %s: %s", p, rpt.String())
			}
			today, _, err := v36.ParseCompatibleVersion(text)
			if err != nil {
				return fmt.Errorf("the pointer in %s: %w", p, err)
			}
			if rpt := validate.ValidateWithContext(v36.Merge(today, newest), nil); rpt.IsFatal() {
				return fmt.Errorf("merged into a pointer of %s by today's Ignition: %s", p, rpt.String())
			}
		}
		return nil
	}
}

// remarks are what a parser says besides that it takes a config, but for what people are warned of when they write it.
func remarks(rpt report.Report) string {
	var out []string
	for _, e := range rpt.Entries {
		switch {
		case strings.HasPrefix(e.Message, "setuid/"), strings.Contains(e.Message, "does not appear to be enabled"),
			strings.Contains(e.Message, "no [Install] section"), strings.Contains(e.Message, "deprecated"):
		default:
			out = append(out, e.String())
		}
	}
	return strings.Join(out, "\n")
}

// appended is the same in version 2, where configs are appended.
func appended(pool string, body []byte) error {
	child, rpt, err := v22.Parse(body)
	if err != nil {
		return fmt.Errorf("its parser says %w\n%s", err, rpt.String())
	}
	text, err := point(pool, mcs.V2_2)
	if err != nil {
		return err
	}
	parent, rpt, err := v22.Parse(text)
	if err != nil {
		return fmt.Errorf("the pointer: %w\n%s", err, rpt.String())
	}
	whole, err := json.Marshal(v22.Append(parent, child))
	if err != nil {
		return err
	}
	if _, rpt, err = v22.Parse(whole); err != nil {
		return fmt.Errorf("appended to the pointer: %w\n%s", err, rpt.String())
	}
	return nil
}

// authority is a certificate to believe a server by.
var authority = sync.OnceValues(func() ([]byte, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0),
		NotAfter: time.Unix(1<<32, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
})

// point is a pointer as a machine of a pool has it.
func point(pool string, v mcs.Version) ([]byte, error) {
	ca, err := authority()
	if err != nil {
		return nil, err
	}
	p := join.Pointer{
		Pool: pool, Server: "https://api.example:22623", CA: ca, Version: v,
		Token: "bunsen.abcdefghij.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
	}
	return p.Ignition()
}

// has tells whether a config has something at a place; items of lists are called by path, name or device, else by
// index.
func has(t *testing.T, raw []byte, place string) bool {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	for place != "" {
		var key string
		if rest, ok := strings.CutPrefix(place, "["); ok {
			key, place, _ = strings.Cut(rest, "]")
			value = item(value, key)
		} else {
			end := strings.IndexAny(place, ".[")
			if end < 0 {
				end = len(place)
			}
			key, place = place[:end], place[end:]
			fields, _ := value.(map[string]any)
			value = fields[key]
		}
		place = strings.TrimPrefix(place, ".")
		if value == nil {
			return false
		}
	}
	return true
}

func item(value any, called string) any {
	list, _ := value.([]any)
	for i, one := range list {
		fields, _ := one.(map[string]any)
		if fields["path"] == called || fields["name"] == called || fields["device"] == called ||
			strconv.Itoa(i) == called {
			return one
		}
	}
	return nil
}
