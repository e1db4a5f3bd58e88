package approve_test

import (
	"crypto/ecdsa"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/approve"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestMessages compares what a person reads of each reason with testdata/messages.txt.
func TestMessages(t *testing.T) {
	f := &fixture{t, map[string]*ecdsa.PrivateKey{}}
	forNode := groups(v1alpha1.PoolGroup("worker", "w9"))
	decisions, _ := approve.Decide(approve.Facts{
		Now: noon, Nodes: map[string]bool{"w1": false, "cp-1": true}, Reserved: map[string]string{"db-1": "4f7q2m9xkd"},
		Requests: []certificatesv1.CertificateSigningRequest{
			f.request("01", "aaaaa1", "w2", "k1"),
			f.request("02", "aaaaa2", "w3", "k1", groups()),
			f.request("03", "aaaaa3", "w1", "k1"),
			f.request("04", "aaaaa3", "w1", "k1", groups()),
			f.request("05", "aaaaa4", "cp-1", "k1"),
			f.request("06", "aaaaa5", "w4", "k1", forNode),
			f.request("07", "aaaaa1", "w4", "k2"),
			f.request("08", "aaaaa6", "w2", "k3"),
			f.request("09", "aaaaa7", "w5", "k1", groups(v1alpha1.PoolGroup("worker", ""),
				v1alpha1.PoolGroup("infra", ""))),
			f.request("00", "aaaaa8", "w5", "k1", ago(20*time.Minute)),
			f.request("10", "aaaaa8", "w5", "k1", usages(certificatesv1.UsageServerAuth)),
			f.request("11", "aaaaa9", "db-1", "k4"),
			f.request("12", "aaaa10", "w2", "k5", groups(v1alpha1.PoolGroup("worker", "w2"))),
		},
	})
	var b strings.Builder
	for _, d := range decisions {
		fmt.Fprintf(&b, "%s\n  %s\n", d.Reason, d.Message)
	}
	file := filepath.Join("testdata", "messages.txt")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("go test ./reconcile/approve -update rewrites it; read the diff:\n%s", b.String())
	}
}
