package git_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// lfsAnswer is a wrong server or a wrong commit, and the error for it.
type lfsAnswer struct {
	limits   source.Limits
	pointers map[string]string // more pointers in the commit
	harm     func(s *lfsServer)
	kind     fault.Kind
	reason   string
	word     string
	asked    bool // the batch API gets a request
}

// first returns the first object of an answer, and its download.
func first(answer map[string]any) (object, download map[string]any) {
	object, _ = answer["objects"].([]any)[0].(map[string]any)
	actions, _ := object["actions"].(map[string]any)
	download, _ = actions["download"].(map[string]any)
	return object, download
}

func answerObject(f http.HandlerFunc) func(*lfsServer) {
	return func(s *lfsServer) { s.object = f }
}

func answerBatch(f http.HandlerFunc) func(*lfsServer) {
	return func(s *lfsServer) { s.batch = f }
}

func changed(f func(object, download map[string]any)) func(*lfsServer) {
	return func(s *lfsServer) { s.change = func(a map[string]any) { f(first(a)) } }
}

func href(to string) func(*lfsServer) {
	return changed(func(_, download map[string]any) { download["href"] = to })
}

func retry(word string, harm func(*lfsServer)) lfsAnswer {
	return lfsAnswer{harm: harm, kind: fault.Retry, reason: v1alpha1.ReasonUnreachable, word: word, asked: true}
}

func stalled(reason, word string, harm func(*lfsServer)) lfsAnswer {
	return lfsAnswer{harm: harm, kind: fault.Stalled, reason: reason, word: word, asked: true}
}

func redirectTo(to string, code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, code) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secretOfAnswer, code) }
}

func lfsAnswers() map[string]lfsAnswer {
	tooMany := map[string]string{}
	for i := range 1001 {
		tooMany[fmt.Sprintf("many/%d", i)] = pointerTo(fmt.Sprintf("%064x", i), 1)
	}
	zero := strings.Repeat("0", 64)
	return map[string]lfsAnswer{
		"another content": retry("another content", answerObject(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "CONTENT") })),
		"a longer content": retry("another content", answerObject(func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				_, _ = io.WriteString(w, strings.Repeat(secretOfAnswer, 1000))
			}
		})),
		"a shorter content": retry("another content", answerObject(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "cont") })),
		"a content that ends early": retry("in the middle", answerObject(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "7")
			_, _ = io.WriteString(w, "cont")
		})),
		"a partial content":           retry("206", answerObject(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPartialContent) })),
		"a storage that refuses":      retry("403", answerObject(status(http.StatusForbidden))),
		"an object that is missing":   retry("git lfs push --all", func(s *lfsServer) { clear(s.objects) }),
		"an answer without objects":   retry("git lfs push --all", func(s *lfsServer) { s.change = func(a map[string]any) { a["objects"] = nil } }),
		"an object that is refused":   retry("code 500", changed(func(o, _ map[string]any) { o["error"] = map[string]any{"code": 500, "message": secretOfAnswer} })),
		"an object of another size":   retry("in its pointer", changed(func(o, _ map[string]any) { o["size"] = 8 })),
		"another transfer":            retry("transfer basic", func(s *lfsServer) { s.change = func(a map[string]any) { a["transfer"] = secretOfAnswer } }),
		"another hash":                retry("SHA-256", func(s *lfsServer) { s.change = func(a map[string]any) { a["hash_algo"] = secretOfAnswer } }),
		"a page in place of JSON":     retry("not one of Git LFS", answerBatch(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>"+secretOfAnswer) })),
		"a number in place of a text": retry("not one of Git LFS", changed(func(o, _ map[string]any) { o["oid"] = 7 })),
		"an endless answer": retry("more than 4194304 bytes", answerBatch(func(w http.ResponseWriter, _ *http.Request) {
			for range 5000 {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1000)); err != nil {
					return
				}
			}
		})),
		"no Git LFS":             retry("enable it on the server", answerBatch(status(http.StatusNotFound))),
		"a busy server":          retry("429", answerBatch(status(http.StatusTooManyRequests))),
		"a redirected request":   retry("final address", answerBatch(redirectTo("https://example.com/"+secretOfAnswer, http.StatusTemporaryRedirect))),
		"refused credentials":    stalled(v1alpha1.ReasonAuthentication, "secretRef", answerBatch(status(http.StatusUnauthorized))),
		"credentials for others": stalled(v1alpha1.ReasonAuthentication, "right to read", answerBatch(status(http.StatusForbidden))),

		"http":                        retry("http://", href("http://example.com/"+secretOfAnswer)),
		"a file":                      retry("not an address", href("file:///etc/passwd?"+secretOfAnswer)),
		"no address":                  retry("not an address", href("https:///"+secretOfAnswer)),
		"a password in the address":   retry("user or password", href("https://me:"+secretOfAnswer+"@example.com/x")),
		"a long address":              retry("more than 8192 bytes", href("https://example.com/"+strings.Repeat(secretOfAnswer, 1000))),
		"a control character":         retry("not an address", href("https://example.com/\n"+secretOfAnswer)),
		"loopback":                    stalled(v1alpha1.ReasonInvalidTree, "loopback", func(s *lfsServer) { href(s.storage.URL + "/" + secretOfAnswer)(s) }),
		"localhost":                   stalled(v1alpha1.ReasonInvalidTree, "loopback", href("https://LocalHost.:6443/"+secretOfAnswer)),
		"loopback in IPv6":            stalled(v1alpha1.ReasonInvalidTree, "loopback", href("https://[::ffff:127.0.0.1]/"+secretOfAnswer)),
		"the metadata of a machine":   stalled(v1alpha1.ReasonInvalidTree, "loopback", href("https://169.254.169.254/"+secretOfAnswer)),
		"a redirect to http":          retry("redirects", answerObject(redirectTo("http://example.com/"+secretOfAnswer, http.StatusFound))),
		"a redirect to loopback":      stalled(v1alpha1.ReasonInvalidTree, "loopback", answerObject(redirectTo("https://127.0.0.2/"+secretOfAnswer, http.StatusFound))),
		"a redirect without an end":   retry("redirects", answerObject(redirectTo("/objects/"+secretOfAnswer, http.StatusFound))),
		"a redirect without a target": retry("redirects", answerObject(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) })),
		"a header with two lines": retry("invalid header", changed(func(_, d map[string]any) {
			d["header"] = map[string]any{"X-A": "a\r\nHost: " + secretOfAnswer}
		})),
		"a header with a wrong name": retry("invalid header", changed(func(_, d map[string]any) { d["header"] = map[string]any{"X A:" + secretOfAnswer: "a"} })),
		"a host without an address":  retry("connection failed", href("https://"+secretOfAnswer+".invalid/x")),

		"too large a file":     {limits: source.Limits{FileBytes: 1000}, pointers: map[string]string{"big": pointerTo(zero, 1001)}, kind: fault.Stalled, reason: v1alpha1.ReasonInvalidTree, word: "big has 1001 bytes"},
		"too large in all":     {limits: source.Limits{Bytes: 2500}, pointers: map[string]string{"x": pointerTo(zero, 1500), "y": pointerTo(zero, 1500)}, kind: fault.Stalled, reason: v1alpha1.ReasonInvalidTree, word: "2500 bytes in all"},
		"a size of all memory": {pointers: map[string]string{"big": pointerTo(zero, 999_999_999_999_999_999)}, kind: fault.Stalled, reason: v1alpha1.ReasonInvalidTree, word: "big has"},
		"too many pointers":    {pointers: tooMany, kind: fault.Stalled, reason: v1alpha1.ReasonInvalidTree, word: "1000 files are in Git LFS"},
	}
}

// TestHostileLFS: what a server of Git LFS answers reaches no file and no error, and a commit cannot ask for more than
// the limits.
func TestHostileLFS(t *testing.T) {
	for name, test := range lfsAnswers() {
		t.Run(name, func(t *testing.T) {
			s := newLFS(t)
			files := map[string]string{"file": s.pointer("content")}
			for path, pointer := range test.pointers {
				files[path] = pointer
			}
			s.repo.commit("one", files)
			asked := false
			if test.harm != nil {
				test.harm(s)
			}
			handler := s.web.Config.Handler
			s.web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = asked || strings.HasSuffix(r.URL.Path, "/objects/batch")
				handler.ServeHTTP(w, r)
			})
			_, err := s.tree(test.limits, "")
			wantFault(t, err, test.kind, test.reason, test.word)
			if strings.Contains(err.Error(), secretOfAnswer) || strings.Contains(err.Error(), storageToken) {
				t.Errorf("the error has text of the answer: %v", err)
			}
			if asked != test.asked {
				t.Errorf("the batch API got a request: %t", asked)
			}
		})
	}
}

// TestARedirectOfLFSCarriesNothingAway: the storage gets neither the credentials nor the headers of the first host.
func TestARedirectOfLFSCarriesNothingAway(t *testing.T) {
	s := newLFS(t)
	s.repo.commit("one", map[string]string{"file": s.pointer("content")})
	s.change = func(a map[string]any) {
		_, download := first(a)
		download["header"] = map[string]any{"X-Storage": storageToken, "Cookie": "a", "Host": "other"}
	}
	s.object = func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "example.com" {
			_, _ = io.WriteString(w, "content")
			return
		}
		http.Redirect(w, r, "https://example.com"+r.URL.Path, http.StatusFound)
	}
	if _, err := s.tree(source.Limits{}, ""); err != nil {
		t.Fatal(err)
	}
	want := []string{
		strings.TrimPrefix(s.web.URL, "https://") + " auth=true storage=true",
		"example.com auth=false storage=false",
	}
	if fmt.Sprint(s.gets) != fmt.Sprint(want) {
		t.Errorf("requests: %v, want %v", s.gets, want)
	}
}
