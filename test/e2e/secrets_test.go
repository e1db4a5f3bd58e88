package e2e

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bunsen-os/bunsen/test/ports"
)

// secretMarker is a part of every secret of the story about secrets.
const secretMarker = "S3CR3T"

// markedForms matches the marker: plain, in base64 at each offset, in hex and with percent signs.
var markedForms = func() *regexp.Regexp {
	forms := []string{secretMarker, hex.EncodeToString([]byte(secretMarker)), "%53%33%43%52%33%54"}
	for offset := range 3 {
		coded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + secretMarker))
		forms = append(forms, coded[(offset*8+5)/6:(offset+len(secretMarker))*8/6])
	}
	for i, form := range forms {
		forms[i] = regexp.QuoteMeta(form)
	}
	return regexp.MustCompile("(?i:" + strings.Join(forms[:3], "|") + ")|" + strings.Join(forms[3:], "|"))
}()

// echoes answers with the credentials of each request, in the way that the first part of the path names. To a proxy's
// client it answers with the credentials for the proxy.
func echoes(w http.ResponseWriter, r *http.Request) {
	got := r.Header.Get("Authorization") + r.Header.Get("Proxy-Authorization")
	_, coded, _ := strings.Cut(got, " ")
	plain, _ := base64.StdEncoding.DecodeString(coded)
	text := fmt.Sprintf("%s %s %s", got, plain, secretMarker)
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	w.Header().Set("X-Echo", text)
	switch way, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); {
	case r.Method == http.MethodConnect:
		w.Header().Set("Proxy-Authenticate", "Basic realm=\""+text+"\"")
		http.Error(w, text, http.StatusProxyAuthRequired)
	case way == "redirect":
		http.Redirect(w, r, "/login?"+coded+secretMarker, http.StatusFound)
	case way == "protocol":
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, line("# service=git-upload-pack\n")+"0000"+line("ERR no access for "+got+" "+
			string(plain)))
	case way == "page":
		w.Header().Set("Content-Type", text)
		_, _ = io.WriteString(w, text)
	case way == "api" || way == "forbidden":
		http.Error(w, text, http.StatusForbidden)
	default: // also of registries: /v2/
		w.Header().Set("WWW-Authenticate", "Basic realm=\""+text+"\"")
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"`+text+`"}]}`, http.StatusUnauthorized)
	}
}

// echo starts a server that tells each client its credentials, at https://$ECHO with the certificate $ECHOCA, and a
// proxy of this kind, $ECHOPROXY. It
// creates the private keys $APPKEY, $OPENKEY and $LOCKEDKEY, and finds a free address, $METRICS.
func (s *story) echo(ts *testscript.TestScript, args []string) error {
	if len(args) != 0 {
		return usage("echo")
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(echoes))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	plain := httptest.NewServer(http.HandlerFunc(echoes))
	ts.Defer(server.Close)
	ts.Defer(plain.Close)
	metrics, err := ports.Address()
	if err != nil {
		return err
	}
	ts.Setenv("METRICS", metrics)
	ts.Setenv("ECHO", strings.TrimPrefix(server.URL, "https://"))
	ts.Setenv("ECHOPROXY", plain.URL)
	ts.Setenv("ECHOCA", indented(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for name, args := range map[string][]string{
		"APPKEY": {"-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""}, "LOCKEDKEY": {
			"-t", "ed25519", "-N",
			"another passphrase",
		}, "OPENKEY": {"-t", "ed25519", "-N", ""},
	} {
		file := filepath.Join(s.work, name)
		if err := ts.Exec("ssh-keygen", append([]string{"-q", "-C", "", "-f", file}, args...)...); err != nil {
			return err
		}
		ts.Setenv(name, indented([]byte(ts.ReadFile(file))))
	}
	return nil
}

// indented returns lines as they stand in a block of YAML.
func indented(lines []byte) string {
	return strings.ReplaceAll(strings.TrimSpace(string(lines)), "\n", "\n    ")
}

// judged SOURCE... waits until the controller has tried to read each source, and failed.
func (s *story) judged(ts *testscript.TestScript, args []string) error {
	for _, name := range args {
		if err := s.waitfor(ts, []string{"gitsource/" + name, "condition:Ready", "False .*"}); err != nil {
			return err
		}
	}
	return nil
}

// marked PLACE... finds the marker in these places, and in no other one: objects of each kind but Secrets, metrics, and
// files of the programs. A place is RESOURCE/NAME, metrics, or the name of a file. The field spec.url of a GitSource is
// its author's.
func (s *story) marked(ts *testscript.TestScript, args []string) error {
	found := map[string]bool{}
	seen, err := s.markedObjects(found)
	if err != nil {
		return err
	}
	if seen < 30 {
		return fmt.Errorf("the API server has only %d objects", seen)
	}
	if address := ts.Getenv("METRICS"); address != "" {
		res, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		if !strings.Contains(string(text), "bunsen_") {
			return errors.New("there are no metrics")
		}
		found["metrics"] = markedForms.Match(text)
	}
	for _, name := range []string{"store", "controller.log", "notifier.log"} {
		err := filepath.WalkDir(filepath.Join(s.work, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			if at, _ := filepath.Rel(s.work, path); markedForms.Match(raw) || markedForms.MatchString(at) {
				found[at] = true
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var got []string
	for place, is := range found {
		if is {
			got = append(got, place)
		}
	}
	slices.Sort(got)
	slices.Sort(args)
	if !slices.Equal(got, args) {
		return fmt.Errorf("the marker is in %q, not in %q", got, args)
	}
	return nil
}

// markedObjects reads each object of the API server, and returns their number.
func (s *story) markedObjects(found map[string]bool) (int, error) {
	lists, err := s.cluster.clients.Discovery().ServerPreferredResources()
	if err != nil {
		return 0, fmt.Errorf("listing the kinds of the API server: %w", err)
	}
	seen := 0
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return 0, err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || group.Group == "" && kind.Name == "secrets" {
				continue
			}
			objects, err := s.cluster.dynamic.Resource(group.WithResource(kind.Name)).List(context.Background(),
				metav1.ListOptions{})
			if err != nil {
				return 0, fmt.Errorf("listing %s: %w", kind.Name, err)
			}
			for _, o := range objects.Items {
				seen++
				if kind.Name == "gitsources" {
					unstructured.RemoveNestedField(o.Object, "spec", "url")
				}
				raw, err := json.Marshal(o.Object)
				if err != nil {
					return 0, err
				}
				if markedForms.Match(raw) {
					found[kind.Name+"/"+o.GetName()] = true
				}
			}
		}
	}
	return seen, nil
}
