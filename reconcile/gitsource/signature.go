package gitsource

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// WebhookTokenKey is the key of a webhook's secret in its Secret.
	WebhookTokenKey = "token"
	// minToken is the minimum length of the secret in bytes.
	minToken = 16
	// MaxWebhookBody is the maximum size of a request's body in bytes.
	MaxWebhookBody = 3 << 20
)

// ErrWebhookSignature means that a request has no valid signature.
var ErrWebhookSignature = errors.New("the request is not signed with the secret of this webhook")

// WebhookToken returns the secret of a webhook from the data of its Secret, without a line break at its end. An error
// says what the Secret lacks, and quotes no value.
func WebhookToken(data map[string][]byte) ([]byte, error) {
	token, ok := data[WebhookTokenKey]
	token = []byte(strings.TrimRight(string(token), "\r\n"))
	switch {
	case !ok:
		return nil, fmt.Errorf("it has no key %q with the secret of the webhook", WebhookTokenKey)
	case len(token) < minToken:
		return nil, fmt.Errorf("its key %q has %d bytes: use at least %d, for example from: openssl rand -hex 32",
			WebhookTokenKey, len(token), minToken)
	}
	return token, nil
}

// signatures maps a kind of git host to the headers that may contain the HMAC of the body, and to the prefix of the
// header's value.
var signatures = map[v1alpha1.WebhookType][]struct{ header, prefix string }{
	v1alpha1.WebhookGitHub:    {{"X-Hub-Signature-256", "sha256="}},
	v1alpha1.WebhookGitea:     {{"X-Gitea-Signature", ""}, {"X-Forgejo-Signature", ""}},
	v1alpha1.WebhookBitbucket: {{"X-Hub-Signature", "sha256="}},
	v1alpha1.WebhookGeneric:   {{"X-Signature", "sha256="}},
}

// VerifyWebhook returns ErrSignature unless the request was signed with the token. The parameter header returns the
// first value of a header. GitLab sends the token itself. Every other host sends a SHA-256 HMAC of the body.
func VerifyWebhook(host v1alpha1.WebhookType, token []byte, header func(string) string, body []byte) error {
	if len(token) < minToken {
		return ErrWebhookSignature
	}
	if host == v1alpha1.WebhookGitLab {
		sent, want := sha256.Sum256([]byte(header("X-Gitlab-Token"))), sha256.Sum256(token)
		if subtle.ConstantTimeCompare(sent[:], want[:]) != 1 {
			return ErrWebhookSignature
		}
		return nil
	}
	mac := hmac.New(sha256.New, token)
	mac.Write(body)
	want := mac.Sum(nil)
	for _, s := range signatures[host] {
		text, ok := strings.CutPrefix(header(s.header), s.prefix)
		if sent, err := hex.DecodeString(text); ok && err == nil && hmac.Equal(sent, want) {
			return nil
		}
	}
	return ErrWebhookSignature
}
