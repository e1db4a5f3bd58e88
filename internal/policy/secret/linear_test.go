package secret_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/policy/secret"
)

// TestHostileTextsTakeLinearTime masks texts that repeat the beginning of a secret. Each takes seconds at most, where a
// rule that looks at every rest of a text takes hours.
func TestHostileTextsTakeLinearTime(t *testing.T) {
	for _, unit := range []string{
		"token:", "password=", "a://", "a://b:", "data:,", `"name":"x_token",`, "<password>",
		"-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n",
		"kind: Secret\n", `{"kind":"Secret""data":{"0":"0"`, `0"kind":"Secret"data":{:"0"`, `"://:0@"`, "password:\n",
		"password: |\n", "--token ", "{{", "(hidden", "authorization:", "$6$", "mysql -p", `"`, "path: /a ",
		"encryptedData:\n",
	} {
		start := time.Now()
		secret.MaskWithDigests("/etc/a", strings.Repeat(unit, (64<<10)/len(unit)))
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("64 KiB of %q take %s", unit, took)
		} else if took > time.Second {
			t.Logf("64 KiB of %q take %s", unit, took)
		}
	}
}
