package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// checkTokens says what the server would not read in a file that is to be added to. One that is not there is fine.
func checkTokens(name string) error {
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("reading the tokens that are there: %w", err)
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")):
		return fmt.Errorf("%s:1: this is JSON, and what is added is YAML; nothing is added: name another file", name)
	}
	var bad []error
	number, first := 0, 1
	var doc bytes.Buffer
	end := func() {
		if err := checkToken(doc.Bytes()); err != nil {
			bad = append(bad, fmt.Errorf("%s:%s; nothing is added: mend it first", name, lined(err, first)))
		}
		// With empty lines in front the parser counts from the top of the file.
		doc.Reset()
		doc.Write(bytes.Repeat([]byte("\n"), number))
		first = number + 1
	}
	for row := range bytes.Lines(data) {
		number++
		if rest, cut := bytes.CutPrefix(row, []byte("---")); cut && len(bytes.TrimSpace(rest)) == 0 {
			end()
			row = nil
		} else if cut && rest[0] == ' ' { // the document begins in the line that separates
			number--
			end()
			number++
			row = append([]byte("   "), rest...)
		}
		doc.Write(row)
	}
	end()
	return errors.Join(bad...)
}

// checkToken reads one document, which may be empty, or a list as kubectl prints it.
func checkToken(doc []byte) error {
	raw, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return err
	}
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil
	}
	var got metav1.TypeMeta
	if err := json.Unmarshal(raw, &got); err != nil {
		return errors.New("this is no object of Kubernetes, which has apiVersion, kind and metadata")
	}
	if strings.HasSuffix(got.Kind, "List") {
		return nil
	}
	if want := (metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ProvisioningToken"}); got != want {
		return fmt.Errorf("kind %q of apiVersion %q: want %s of %s", got.Kind, got.APIVersion, want.Kind, want.APIVersion)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(&v1alpha1.ProvisioningToken{})
}

// yamlPlace is how the YAML parser names a line.
var yamlPlace = regexp.MustCompile(`^.*yaml: (?:unmarshal errors:\s*)?line (\d+): `)

// lined is "LINE: what": the line that the parser names, else where the document begins.
func lined(err error, first int) string {
	text := err.Error()
	if m := yamlPlace.FindStringSubmatchIndex(text); m != nil {
		return fmt.Sprintf("%s: %s", text[m[2]:m[3]], text[m[1]:])
	}
	return fmt.Sprintf("%d: %s", first, text)
}

// appendFile adds a document to a file of YAML, which may not be there yet.
func appendFile(name string, document []byte) (err error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	separator := "---\n"
	if info.Size() > 0 {
		separator = "\n---\n" // its last line may have no end
	}
	_, err = f.Write(append([]byte(separator), document...))
	return err
}
