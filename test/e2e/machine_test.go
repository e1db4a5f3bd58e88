package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vincent-petithory/dataurl"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// bunsen runs the command line tool as the administrator, and returns what it prints on standard output.
func (s *story) bunsen(ts *testscript.TestScript, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := s.bunsenCommand(ctx, ts, args...)
	var notes bytes.Buffer
	cmd.Stderr = &notes
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("bunsen %s: %w\n%s", args[0], err, notes.String())
	}
	return out, nil
}

// bunsenCommand returns the command line tool as the administrator runs it.
func (s *story) bunsenCommand(ctx context.Context, ts *testscript.TestScript, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "bunsen"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"), "HOME="+s.work)
	return cmd
}

// inquiry is what a machine needs to know to ask for its config.
type inquiry struct {
	url string
	// ca is whom it believes, as PEM.
	ca      []byte
	headers map[string]string
}

// ask asks as Ignition does, and returns status and body.
func (q inquiry) ask(method string) (int, []byte, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(q.ca) {
		return 0, nil, errors.New("there is no CA to believe")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Timeout: 5 * time.Second, Transport: transport}
	req, err := http.NewRequest(method, q.url, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/vnd.coreos.ignition+json;version=3.5.0, */*;q=0.1")
	req.Header.Set("User-Agent", "Ignition/2.27.0")
	for name, value := range q.headers {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return res.StatusCode, raw, err
}

// asMachine asks the server for a pool's config, and returns status and body.
func (s *story) asMachine(ts *testscript.TestScript, method, pool, token string) (int, []byte, error) {
	ca, err := os.ReadFile(filepath.Join(s.work, "certs", "ca.crt"))
	if err != nil {
		return 0, nil, err
	}
	q := inquiry{url: ts.Getenv("MCS") + "/config/" + pool, ca: ca}
	if token != "" {
		q.headers = map[string]string{"Authorization": "Bearer " + token}
	}
	return q.ask(method)
}

// token VAR POOL [FLAG...] is `bunsen token create`; VAR is the token, VAR_ID and VAR_SECRET its parts.
func (s *story) token(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return usage("token VAR POOL [FLAG...]")
	}
	text, err := s.newToken(ts, args[1], args[2:]...)
	if err != nil {
		return err
	}
	ts.Setenv(args[0], text)
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return errors.New("bunsen token create does not print bunsen.ID.SECRET")
	}
	ts.Setenv(args[0]+"_ID", parts[1])
	ts.Setenv(args[0]+"_SECRET", parts[2])
	return nil
}

// newToken makes a token, and waits until the server knows it: its watch may be a moment behind.
func (s *story) newToken(ts *testscript.TestScript, pool string, flags ...string) (string, error) {
	out, err := s.bunsen(ts, append([]string{"token", "create", "--pool", pool, "--ttl", "1h"}, flags...)...)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(out))
	err = poll(patience, func() (bool, error) {
		// Asking for the head only is no use of the token.
		status, _, err := s.asMachine(ts, http.MethodHead, pool, text)
		if err == nil {
			err = fmt.Errorf("status %d", status)
		}
		return status != 0 && status != http.StatusUnauthorized && status != http.StatusServiceUnavailable, err
	})
	if err != nil {
		return "", fmt.Errorf("waiting until the server knows a new token of pool %s: %w", pool, err)
	}
	return text, nil
}

// pass is a token of this test's own, bound to a node, so that what it gets is whole.
func (s *story) pass(ts *testscript.TestScript, pool string) (string, error) {
	if s.passes[pool] == "" {
		text, err := s.newToken(ts, pool, "--node", "of-the-test")
		if err != nil {
			return "", err
		}
		s.passes[pool] = text
	}
	return s.passes[pool], nil
}

// ask STATUS POOL [TOKEN] asks for a pool's config as a new machine does, until the answer has this status, and prints
// its body.
func (s *story) ask(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return usage("ask STATUS POOL [TOKEN]")
	}
	token := strings.Join(args[2:], "")
	return s.answer(ts, args[0], func() (int, []byte, error) { return s.asMachine(ts, http.MethodGet, args[1], token) })
}

// pointed STATUS FILE asks by what a pointer config says, and nothing else.
func (s *story) pointed(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("pointed STATUS FILE")
	}
	q, err := pointerIn([]byte(ts.ReadFile(args[1])))
	if err != nil {
		return err
	}
	return s.answer(ts, args[0], func() (int, []byte, error) { return q.ask(http.MethodGet) })
}

// pointerIn reads a pointer config.
func pointerIn(config []byte) (inquiry, error) {
	type source struct {
		Source      string
		HTTPHeaders []struct{ Name, Value string }
	}
	var parsed struct {
		Ignition struct {
			Config   struct{ Merge []source }
			Security struct {
				TLS struct{ CertificateAuthorities []source }
			}
		}
	}
	if err := json.Unmarshal(config, &parsed); err != nil {
		return inquiry{}, fmt.Errorf("reading a pointer config: %w", err)
	}
	cas, merge := parsed.Ignition.Security.TLS.CertificateAuthorities, parsed.Ignition.Config.Merge
	if len(merge) != 1 || len(cas) != 1 {
		return inquiry{}, fmt.Errorf("a pointer config with %d sources and %d CAs", len(merge), len(cas))
	}
	ca, err := dataurl.DecodeString(cas[0].Source)
	if err != nil {
		return inquiry{}, fmt.Errorf("reading the CA of a pointer config: %w", err)
	}
	q := inquiry{url: merge[0].Source, ca: ca.Data, headers: map[string]string{}}
	for _, h := range merge[0].HTTPHeaders {
		q.headers[h.Name] = h.Value
	}
	return q, nil
}

// answer asks until the status is the wanted one, and prints the body.
func (s *story) answer(ts *testscript.TestScript, status string, ask func() (int, []byte, error)) error {
	want, err := strconv.Atoi(status)
	if err != nil {
		return err
	}
	var body []byte
	err = poll(patience, func() (bool, error) {
		if err := s.alive(); err != nil {
			return false, err
		}
		is, raw, err := ask()
		if body = raw; err == nil {
			err = fmt.Errorf("status %d: %.300s", is, raw)
		}
		return is == want, err
	})
	if err != nil {
		return fmt.Errorf("waiting for an answer with status %d: %w", want, err)
	}
	_, err = ts.Stdout().Write(body)
	return err
}

// serves POOL CONFIG waits until new machines of a pool get a config.
func (s *story) serves(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("serves POOL CONFIG")
	}
	pass, err := s.pass(ts, args[0])
	if err != nil {
		return err
	}
	err = poll(patience, func() (bool, error) {
		status, raw, err := s.asMachine(ts, http.MethodGet, args[0], pass)
		if err != nil {
			return false, err
		}
		if status != http.StatusOK {
			return false, fmt.Errorf("status %d: %.300s", status, raw)
		}
		name, err := configOf(raw)
		if err == nil {
			err = fmt.Errorf("it serves %s", name)
		}
		return name == args[1], err
	})
	if err != nil {
		return fmt.Errorf("waiting until pool %s serves %s: %w", args[0], args[1], err)
	}
	return nil
}

// configOf is the name of the config that a machine was served, as its node will have it.
func configOf(served []byte) (string, error) {
	files, err := filesOf(served)
	if err != nil {
		return "", err
	}
	var annotations map[string]string
	if err := json.Unmarshal(files[mcs.NodeAnnotationsPath].contents, &annotations); err != nil {
		return "", fmt.Errorf("reading %s: %w", mcs.NodeAnnotationsPath, err)
	}
	return annotations[v1alpha1.DesiredConfigAnnotation], nil
}

// machineFile is a file that Ignition would write.
type machineFile struct {
	mode     os.FileMode
	contents []byte
}

// filesOf reads the files of an Ignition config whose contents are in the config itself.
func filesOf(config []byte) (map[string]machineFile, error) {
	var parsed struct {
		Storage struct {
			Files []struct {
				Path     string
				Mode     *int
				Contents struct{ Source, Compression string }
			}
		}
	}
	if err := json.Unmarshal(config, &parsed); err != nil {
		return nil, fmt.Errorf("reading an Ignition config: %w\n%s", err, config)
	}
	out := map[string]machineFile{}
	for _, f := range parsed.Storage.Files {
		if f.Contents.Compression != "" || f.Contents.Source == "" {
			continue
		}
		data, err := dataurl.DecodeString(f.Contents.Source)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Path, err)
		}
		file := machineFile{mode: 0o644, contents: data.Data}
		if f.Mode != nil {
			file.mode = os.FileMode(*f.Mode).Perm()
		}
		out[f.Path] = file
	}
	return out, nil
}

// unpack FILE DIR writes the files of an Ignition config into a directory, as Ignition does on a new machine's disk.
func (s *story) unpack(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("unpack FILE DIR")
	}
	files, err := filesOf([]byte(ts.ReadFile(args[0])))
	if err != nil {
		return err
	}
	for path, f := range files {
		at := filepath.Join(ts.MkAbs(args[1]), path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, f.contents, f.mode); err != nil {
			return err
		}
	}
	return nil
}
