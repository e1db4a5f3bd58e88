package machineconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// SecretFile is a file of a config whose contents are unresolved.
type SecretFile struct {
	// Path on the node.
	Path string
	// Content that the server resolves.
	Content SecretContent
}

// SecretFiles returns the files of a flat config whose contents are unresolved, in the config's order. The error lists
// each unresolved content that is invalid, or that is not the whole contents of a file. A template with facts of nodes
// is invalid: a rendered config has their values.
func SecretFiles(c Config) ([]SecretFile, error) {
	out, err := SecretFilesOf(c)
	bad := []error{err}
	for _, f := range out {
		if facts := f.Content.Facts(); len(facts) > 0 {
			bad = append(bad, fmt.Errorf("file %s: the template uses the fact %q of a node, which no table of nodes "+
				"has; write $${ for a literal ${", f.Path, facts[0]))
		}
	}
	return out, errors.Join(bad...)
}

// SecretFilesOf returns what Files does, for a document, which may use facts of nodes.
func SecretFilesOf(c Config) ([]SecretFile, error) {
	var out []SecretFile
	var bad []error
	for _, f := range c.Ignition.Storage.Files {
		content, unresolved, err := SecretsOf(f.Contents)
		if err != nil {
			bad = append(bad, fmt.Errorf("file %s: %w", f.Path, err))
		} else if unresolved {
			out = append(out, SecretFile{f.Path, content})
		}
	}
	for _, r := range elsewhere(c.Ignition) {
		if r.Source != nil && IsUnresolved(*r.Source) {
			bad = append(bad, fmt.Errorf("%s refers to a secret: only storage.files[].contents can", r.place))
		}
	}
	return out, errors.Join(bad...)
}

// placed is a resource with its place in the config.
type placed struct {
	ign.Resource
	place string
}

// elsewhere returns the resources of a config that are not the contents of a file.
func elsewhere(c ign.Config) []placed {
	var out []placed
	for _, f := range c.Storage.Files {
		for i, r := range f.Append {
			out = append(out, placed{r, fmt.Sprintf("file %s: append[%d]", f.Path, i)})
		}
	}
	for _, l := range c.Storage.Luks {
		out = append(out, placed{l.KeyFile, "luks " + l.Name + ": keyFile"})
	}
	for i, r := range c.Ignition.Security.TLS.CertificateAuthorities {
		out = append(out, placed{r, fmt.Sprintf("ignition.security.tls.certificateAuthorities[%d]", i)})
	}
	for i, r := range c.Ignition.Config.Merge {
		out = append(out, placed{r, fmt.Sprintf("ignition.config.merge[%d]", i)})
	}
	return append(out, placed{c.Ignition.Config.Replace, "ignition.config.replace"})
}

// ResolveSecrets returns a flat config with resolved contents in place of the unresolved ones, by path. It does not
// change the config of the caller. The error names each file without contents.
func ResolveSecrets(c Config, contents map[string][]byte) (Config, error) {
	files, err := SecretFiles(c)
	if err != nil || len(files) == 0 {
		return c, err
	}
	var bad []error
	c.Ignition.Storage.Files = slices.Clone(c.Ignition.Storage.Files)
	for i, f := range c.Ignition.Storage.Files {
		if f.Contents.Source == nil || !IsUnresolved(*f.Contents.Source) {
			continue
		}
		data, ok := contents[f.Path]
		if !ok {
			bad = append(bad, fmt.Errorf("file %s: its secret is not there", f.Path))
			continue
		}
		source := "data:;base64," + base64.StdEncoding.EncodeToString(data)
		c.Ignition.Storage.Files[i].Contents = ign.Resource{Source: &source}
	}
	return c, errors.Join(bad...)
}
