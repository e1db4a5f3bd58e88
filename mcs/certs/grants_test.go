package certs

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// TestReplicasWithOneCertificateHaveOneKey starts two servers on the same files, and a third one with another name, for
// which the certificate is made again.
func TestReplicasWithOneCertificateHaveOneKey(t *testing.T) {
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	open := func(names ...string) *Certificates {
		t.Helper()
		c, err := OpenCertificates(dir, names, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b := open("a.example.com"), open("a.example.com")
	keys := a.GrantKeys()
	if len(keys) != 1 || len(keys[0]) != grantKeySize || string(keys[0]) != string(b.GrantKeys()[0]) {
		t.Fatalf("they have %d and %d keys", len(keys), len(b.GrantKeys()))
	}
	if !a.Covers("a.example.com") || a.Covers("b.example.com") || !a.Covers("127.0.0.1") || a.Covers("") {
		t.Error("the certificate is for other hosts than its names")
	}
	c := open("b.example.com")
	if err := a.Refresh(context.Background(), time.Now()); err != nil {
		t.Fatal(err)
	}
	now := a.GrantKeys()
	if len(now) != 2 || string(now[0]) != string(c.GrantKeys()[0]) || string(now[1]) != string(keys[0]) {
		t.Errorf("after a new certificate there are %d keys", len(now))
	}
	if new(Certificates).GrantKeys() != nil || new(Certificates).Covers("a.example.com") {
		t.Error("without a certificate there is a key")
	}
}
