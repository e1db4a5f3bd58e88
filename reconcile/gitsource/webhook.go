package gitsource

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// PushedRef is one ref that a push changed.
type PushedRef struct {
	// Ref is the full name, `refs/heads/main`. Ref is empty if the request names no ref; then any ref may have changed.
	Ref string
	// Commit is the new hash of the ref, 40 lower-case hex digits. Commit is empty if the push deleted the ref, or if
	// the request does not name the commit.
	Commit string
}

// maxChanges is how many changed refs Read returns for one request.
const maxChanges = 100

var (
	hash    = regexp.MustCompile(`^[0-9a-f]{40}$`)
	refName = regexp.MustCompile(`^refs/[\x21-\x7e]{1,500}$`)
)

// ReadWebhook returns the refs that changed; none for an event that is not a push, such as a ping. Call Read only after
// Verify. Each text of the result has the form that its field documents, whatever the body contains.
func ReadWebhook(host v1alpha1.WebhookType, header func(string) string, body []byte) ([]PushedRef, error) {
	if host != v1alpha1.WebhookGeneric { // curl calls each body a form.
		var err error
		if body, err = unform(header("Content-Type"), body); err != nil {
			return nil, err
		}
	}
	read, ok := readers[host]
	if !ok {
		return nil, fmt.Errorf("reading the request: %q is no type of webhook", host)
	}
	found, err := read(header, body)
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if len(found) > maxChanges {
		return []PushedRef{{}}, nil // The request names too many refs, so Read reports that any ref may have changed.
	}
	var out []PushedRef
	for _, c := range found {
		if c.Ref != "" && !refName.MatchString(c.Ref) {
			return nil, errors.New("reading the request: it names a ref that is not refs/<name> in printable ASCII " +
				"characters")
		}
		if !hash.MatchString(c.Commit) || strings.Trim(c.Commit, "0") == "" {
			c.Commit = ""
		}
		out = append(out, c)
	}
	return out, nil
}

// unform returns the JSON of a body that a host sent as a form.
func unform(contentType string, body []byte) ([]byte, error) {
	if !strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		return body, nil
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w; set the webhook's content type to application/json", err)
	}
	return []byte(values.Get("payload")), nil
}

var readers = map[v1alpha1.WebhookType]func(func(string) string, []byte) ([]PushedRef, error){
	v1alpha1.WebhookGitHub:    readRefAndAfter("X-GitHub-Event", "push"),
	v1alpha1.WebhookGitea:     readRefAndAfter("X-Gitea-Event", "push"),
	v1alpha1.WebhookGitLab:    readRefAndAfter("X-Gitlab-Event", "Push Hook", "Tag Push Hook"),
	v1alpha1.WebhookBitbucket: readBitbucket,
	v1alpha1.WebhookGeneric:   readGeneric,
}

// readRefAndAfter reads the push events that GitHub, Gitea, Forgejo and GitLab send in one form.
func readRefAndAfter(eventHeader string, pushes ...string) func(func(string) string, []byte) ([]PushedRef, error) {
	return func(header func(string) string, body []byte) ([]PushedRef, error) {
		event := header(eventHeader)
		for _, push := range pushes {
			if event != push {
				continue
			}
			var in struct{ Ref, After string }
			if err := json.Unmarshal(body, &in); err != nil {
				return nil, err
			}
			if in.Ref == "" {
				return nil, errors.New("its body has no field ref")
			}
			return []PushedRef{{in.Ref, in.After}}, nil
		}
		return nil, nil
	}
}

// readBitbucket reads the pushes of Bitbucket Cloud and of Bitbucket Data Center.
func readBitbucket(header func(string) string, body []byte) ([]PushedRef, error) {
	switch header("X-Event-Key") {
	case "repo:push":
		return readBitbucketCloud(body)
	case "repo:refs_changed":
		var in struct {
			Changes []struct {
				RefID, ToHash string
			}
		}
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		var out []PushedRef
		for _, c := range in.Changes {
			out = append(out, PushedRef{c.RefID, c.ToHash})
		}
		return out, nil
	}
	return nil, nil
}

func readBitbucketCloud(body []byte) ([]PushedRef, error) {
	type ref struct {
		Type, Name string
		Target     struct{ Hash string }
	}
	var in struct {
		Push struct{ Changes []struct{ New, Old *ref } }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	prefixes := map[string]string{"branch": "refs/heads/", "tag": "refs/tags/"}
	var out []PushedRef
	for _, c := range in.Push.Changes {
		at, hash := c.New, ""
		if at == nil { // at is nil if the push deleted the ref.
			at = c.Old
		} else if at.Type == "branch" { // the hash of a tag may be that of a tag object
			hash = at.Target.Hash
		}
		if at != nil && prefixes[at.Type] != "" {
			out = append(out, PushedRef{prefixes[at.Type] + at.Name, hash})
		}
	}
	return out, nil
}

// readGeneric reads {"ref": …, "commit": …}. Both fields are optional, and the body may be empty.
func readGeneric(_ func(string) string, body []byte) ([]PushedRef, error) {
	var in struct{ Ref, Commit string }
	if len(strings.TrimSpace(string(body))) > 0 {
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
	}
	return []PushedRef{{in.Ref, in.Commit}}, nil
}

// RelevantRefs returns the change of the ref that a source follows, or nil if no change concerns this ref.
func RelevantRefs(changes []PushedRef, follows v1alpha1.GitRef) *PushedRef {
	for _, c := range changes {
		if concerns(c.Ref, follows) {
			return &c
		}
	}
	return nil
}

func concerns(ref string, follows v1alpha1.GitRef) bool {
	switch {
	case ref == "":
		return true
	case follows.Commit != "":
		return false
	case follows.Name != "":
		return ref == follows.Name || follows.Name == "HEAD" && strings.HasPrefix(ref, "refs/heads/")
	case follows.SemVer != "":
		return strings.HasPrefix(ref, "refs/tags/")
	case follows.Tag != "":
		return ref == "refs/tags/"+follows.Tag
	case follows.Branch != "":
		return ref == "refs/heads/"+follows.Branch
	}
	return strings.HasPrefix(ref, "refs/heads/")
}

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

// VerifyWebhook returns ErrWebhookSignature unless the request was signed with the token. The parameter header returns
// the first value of a header. GitLab sends the token itself. Every other host sends a SHA-256 HMAC of the body.
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

// announcementPause is the time between two announcements of a source that are recorded. It does not depend on what the
// requests say, so requests that somebody captured and sends again cause no more polls than others.
const announcementPause = time.Second

// announcements merges pushes that arrive shortly after each other. The zero value is ready for use, and safe for
// concurrent use.
type announcements struct {
	mu       sync.Mutex
	bySource map[string]*announced
}

// announced is the state of one source.
type announced struct {
	last    time.Time // when a push was last taken to be recorded
	waiting *waiting  // nil if no push waits
}

// waiting is a push that is not recorded yet, and the requests that wait for it. err is valid after done is closed.
type waiting struct {
	change PushedRef
	done   chan struct{}
	err    error
}

// add adds a push. If it is the first one that waits, isFirst is true: then the caller takes it after the delay, and
// closes done.
func (a *announcements) add(name string, c PushedRef, now time.Time) (w *waiting, delay time.Duration,
	isFirst bool,
) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bySource == nil {
		a.bySource = map[string]*announced{}
	}
	for other, s := range a.bySource { // of deleted sources too
		if s.waiting == nil && now.Sub(s.last) >= announcementPause {
			delete(a.bySource, other)
		}
	}
	s := a.bySource[name]
	if s == nil {
		s = &announced{last: now.Add(-announcementPause)}
		a.bySource[name] = s
	}
	if s.waiting != nil {
		// The controller polls until the repository has an announced commit, so a push without a commit replaces none.
		if c.Commit != "" || s.waiting.change.Commit == "" {
			s.waiting.change = c
		}
		return s.waiting, 0, false
	}
	s.waiting = &waiting{change: c, done: make(chan struct{})}
	return s.waiting, max(0, min(announcementPause, s.last.Add(announcementPause).Sub(now))), true
}

// take returns the merged push of a source. Pushes that arrive afterwards are recorded later.
func (a *announcements) take(name string, now time.Time) PushedRef {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.bySource[name]
	c := s.waiting.change
	s.waiting, s.last = nil, now
	return c
}
