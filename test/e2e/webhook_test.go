package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// announce STATUS SOURCE SECRET announces the last pushed commit of main as GitHub does, signed with SECRET, until the
// controller answers with the HTTP status STATUS.
func (s *story) announce(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return usage("announce STATUS SOURCE SECRET")
	}
	body := fmt.Sprintf(`{"ref":"refs/heads/main","after":%q}`, ts.Getenv("HEAD"))
	mac := hmac.New(sha256.New, []byte(args[2]))
	mac.Write([]byte(body))
	client := &http.Client{Timeout: 10 * time.Second}
	return poll(patience, func() (bool, error) {
		if err := s.alive(); err != nil {
			return false, err
		}
		req, err := http.NewRequest(http.MethodPost, ts.Getenv("HOOK")+"/hook/"+args[1], strings.NewReader(body))
		if err != nil {
			return false, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-GitHub-Event", "push")
		req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		res, err := client.Do(req)
		if err != nil {
			return false, err // the controller has just started
		}
		if err := res.Body.Close(); err != nil {
			return false, err
		}
		return fmt.Sprint(res.StatusCode) == args[0], fmt.Errorf("the controller answers %s", res.Status)
	})
}
