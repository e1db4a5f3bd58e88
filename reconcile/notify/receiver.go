package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// receiver is a chat or a webhook.
type receiver struct {
	kind   v1alpha1.NotificationType
	secret secret
	client *http.Client
}

// send sends one message. The error has the host and the HTTP status, but no other part of the address, and no part of
// the answer.
func (r receiver) send(ctx context.Context, e Event, now time.Time) error {
	req, err := r.request(ctx, e, now)
	if err != nil {
		return fmt.Errorf("writing the message about %s: %w", e.Name(), withoutURL(err))
	}
	res, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("sending the message about %s to %s: %w", e.Name(), req.URL.Host, withoutURL(err))
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return fmt.Errorf("sending the message about %s to %s: reading the answer: %w", e.Name(), req.URL.Host, err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("sending the message about %s: %s answers %d %s%s", e.Name(), req.URL.Host, res.StatusCode,
			http.StatusText(res.StatusCode), advice(res.StatusCode))
	}
	return nil
}

// advice is for an HTTP status code.
func advice(code int) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ": check the token in the Secret, and what it may do"
	case http.StatusNotFound, http.StatusGone:
		return ": check the address in the Secret"
	default:
		return ""
	}
}

// withoutURL leaves out the URL, which is a secret for Slack.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func (r receiver) request(ctx context.Context, e Event, now time.Time) (*http.Request, error) {
	method, address, header := http.MethodPost, r.secret.address, http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", "bunsen-notifier")
	var content any
	switch r.kind {
	case v1alpha1.NotifySlack:
		content = map[string]string{"text": slackText(e.Text)}
	case v1alpha1.NotifyMatrix:
		method = http.MethodPut
		// The server ignores a second request with the same transaction, such as a retry after a lost answer.
		address = fmt.Sprintf("%s/_matrix/client/v3/rooms/%s/send/m.room.message/%s", strings.TrimSuffix(address, "/"),
			url.PathEscape(r.secret.room), "bunsen-"+e.Delivery)
		header.Set("Authorization", "Bearer "+r.secret.token)
		content = map[string]any{"msgtype": "m.notice", "body": e.Text, "m.mentions": struct{}{}}
	case v1alpha1.NotifyCloudEvents:
		header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
		if r.secret.token != "" {
			header.Set("Authorization", "Bearer "+r.secret.token)
		}
		content = map[string]any{
			"specversion": "1.0", "id": e.Delivery, "source": "/bunsen/" + e.Cluster, "type": cloudEventType(e.Event),
			"subject": e.Name(), "time": now.UTC().Format(time.RFC3339Nano), "datacontenttype": "application/json",
			"data": e,
		}
	default:
		content = struct {
			Event
			Time time.Time `json:"time"`
		}{e, now.UTC()}
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	if r.kind == v1alpha1.NotifyWebhook {
		mac := hmac.New(sha256.New, []byte(r.secret.token))
		mac.Write(body) // A write to a hash never fails.
		req.Header.Set("X-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		req.Header.Set("X-Bunsen-Event", string(e.Event))
		req.Header.Set("X-Bunsen-Delivery", e.Delivery)
	}
	return req, nil
}

// cloudEventType is such as `dev.bunsen.applied`.
func cloudEventType(e v1alpha1.NotificationEvent) string {
	name := string(e)
	if rest, ok := strings.CutPrefix(name, "Rollout"); ok {
		name = "rollout." + rest
	}
	return "dev.bunsen." + strings.ToLower(name)
}

// slackText escapes what could mention users or link with another title.
func slackText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
