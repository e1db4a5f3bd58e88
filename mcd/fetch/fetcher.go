package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/trustfile"
	internaldownload "github.com/bunsen-os/bunsen/internal/download"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Store has complete contents.
type Store interface {
	// Digests returns digests by hashes in the form of configs: those of complete contents, and those that are known,
	// also without the contents.
	Digests() (complete, known map[string]host.Digest, _ error)
	// Adopt stores the contents of a file of the machine, if they have a hash. It returns false if they have another
	// one. If it cannot store them, their digest is known nevertheless.
	Adopt(path, hash string) (bool, error)
	// Names returns the names in a directory of the machine; none if the directory does not exist.
	Names(dir string) ([]string, error)
	// Retain removes all contents and unfinished downloads, except those with the given hashes.
	Retain(hashes map[string]bool) error
}

// Access is how a config reaches servers.
type Access struct {
	// Proxy are the proxies of the config. Without any, the proxies of the environment apply.
	Proxy ign.Proxy
	// Authorities are PEM certificates of CAs in addition to those of the machine.
	Authorities [][]byte
	// Logins are the machine's credentials for registries, and Mirrors the mirrors of registries.
	Logins  internaldownload.Logins
	Mirrors internaldownload.Mirrors
}

// Fetcher brings the remote files of configs onto one machine.
type Fetcher struct {
	// Files are the files of the machine.
	Files host.Files
	// Store and Partials are the content store of the machine.
	Store    Store
	Partials Partials
	// Web returns a client for the proxies and CAs of a config.
	Web func(Access) Web
}

// Resolve returns a config in which each remote file is named by the SHA-256 of its contents, if the store knows it, as
// the machine names contents. If the store cannot be read, the config stays as it is.
func (f *Fetcher) Resolve(c machineconfig.Config) machineconfig.Config {
	if f == nil || len(machineconfig.RemoteFiles(c)) == 0 {
		return c
	}
	_, known, err := f.Store.Digests()
	if err != nil {
		return c
	}
	hashes := map[string]string{}
	for hash, d := range known {
		hashes[hash] = "sha256-" + string(d)
	}
	return machineconfig.WithHashes(c, hashes)
}

// Adopt stores the contents of remote files of a config that the machine has at their paths, such as those that
// Ignition downloaded. Adopt returns whether it stored any.
func (f *Fetcher) Adopt(c machineconfig.Config) (adopted bool, _ error) {
	missing, err := f.missing(c)
	if err != nil {
		return false, err
	}
	var bad []error
	for _, r := range missing {
		did, err := f.Store.Adopt(r.Path, r.Hash)
		if err != nil {
			bad = append(bad, fmt.Errorf("storing the contents of %s: %w", r.Path, err))
		}
		adopted = adopted || did
	}
	return adopted, errors.Join(bad...)
}

// missing returns the remote files of a config that the store lacks.
func (f *Fetcher) missing(c machineconfig.Config) ([]machineconfig.RemoteFile, error) {
	if f == nil {
		return nil, nil
	}
	all := machineconfig.RemoteFiles(c)
	if len(all) == 0 {
		return nil, nil
	}
	complete, _, err := f.Store.Digests()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r machineconfig.RemoteFile) bool { return complete[r.Hash] != "" }), nil
}

// Fetch downloads the remote files of a config that the machine lacks, one after the other. Fetch returns whether it
// stored any contents. It tries all files, and the error joins an *Error for each file that failed.
func (f *Fetcher) Fetch(ctx context.Context, c machineconfig.Config,
	progress func(Progress) error,
) (fetched bool, _ error) {
	fetched, err := f.Adopt(c)
	if err != nil {
		return fetched, err
	}
	missing, err := f.missing(c)
	if err != nil || len(missing) == 0 {
		return fetched, err
	}
	web := f.Web(f.accessTo(c))
	var bad []error
	tried := map[string]bool{}
	for _, r := range missing {
		if tried[r.Hash] {
			continue
		}
		tried[r.Hash] = true
		err := Get(ctx, r.Remote, f.Partials, web, progress)
		fetched, bad = fetched || err == nil, append(bad, err)
		if ctx.Err() != nil || errors.Is(err, ErrStop) {
			break
		}
	}
	return fetched, errors.Join(bad...)
}

// ErrStop is the error with which a progress function ends all downloads.
var ErrStop = errors.New("the download is no longer needed")

// accessTo returns the proxies and CAs of a config, the mirrors, and the machine's pull secret. An invalid pull secret
// counts as none, because public registries need none.
func (f *Fetcher) accessTo(c machineconfig.Config) Access {
	c = machineconfig.Flattened(c)
	settings := c.Ignition.Ignition
	a := Access{Proxy: settings.Proxy, Mirrors: f.mirrors(c.Ignition.Storage.Files)}
	if text, err := f.Files.Read(trustfile.PullSecretPath); err == nil {
		a.Logins, _ = internaldownload.ParseLogins(text)
	}
	for _, r := range settings.Security.TLS.CertificateAuthorities {
		if pem, err := machineconfig.Contents(r); err == nil {
			a.Authorities = append(a.Authorities, pem)
		}
	}
	return a
}

// mirrors returns the mirrors of registries: those of the config that the machine gets, and otherwise those that it
// has. So a config can bring a mirror and a file from it, and replace a file that is not valid.
func (f *Fetcher) mirrors(files []ign.File) internaldownload.Mirrors {
	own := map[string]ign.Resource{}
	for _, file := range files {
		if file.Path == internaldownload.RegistriesConf ||
			path.Dir(file.Path) == internaldownload.MirrorDropIns(internaldownload.RegistriesConf) {
			own[file.Path] = file.Contents
		}
	}
	read := func(name string) ([]byte, error) {
		if contents, is := own[name]; is {
			return machineconfig.Contents(contents)
		}
		return f.Files.Read(name)
	}
	return internaldownload.LoadMirrors(internaldownload.RegistriesConf, read, func(dir string) ([]string, error) {
		names, err := f.Store.Names(dir)
		for at := range own {
			if name := path.Base(at); path.Dir(at) == dir && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return names, err
	})
}

// recordPath has the contents that the machine keeps.
const recordPath = host.StateDir + "/content.json"

// kept are the hashes of the config in force, of the config before it, and of the config that the machine gets next.
type kept struct {
	Config         string
	Hashes, Before []string
	Ahead          []string `json:",omitempty"`
}

// all returns all hashes.
func (k kept) all() map[string]bool {
	hashes := map[string]bool{}
	for _, hash := range slices.Concat(k.Hashes, k.Before, k.Ahead) {
		hashes[hash] = true
	}
	return hashes
}

// readRecord reads the record. The result known is false if there is none, or if it is damaged.
func (f *Fetcher) readRecord() (was kept, known bool, _ error) {
	text, err := f.Files.Read(recordPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return was, false, fmt.Errorf("reading which contents stay: %w", err)
	}
	if err != nil || json.Unmarshal(text, &was) != nil {
		return kept{}, err == nil, nil
	}
	return was, true, nil
}

// KeepAhead records that the machine keeps the contents of a config that it gets next, and removes contents that
// neither this config nor the configs in force and before need.
func (f *Fetcher) KeepAhead(c machineconfig.Config) error {
	var hashes []string
	for _, r := range machineconfig.RemoteFiles(c) {
		hashes = append(hashes, r.Hash)
	}
	was, known, err := f.readRecord()
	if err != nil || !known && len(hashes) == 0 || slices.Equal(was.Ahead, hashes) {
		return err
	}
	was.Ahead = hashes
	return f.retain(was)
}

// ForgetAhead removes contents that only a config needs that the machine was to get next.
func (f *Fetcher) ForgetAhead() error { return f.KeepAhead(machineconfig.Config{}) }

// retain records the contents that stay, and removes the others.
func (f *Fetcher) retain(now kept) error {
	if err := f.record(now); err != nil {
		return fmt.Errorf("recording which contents stay: %w", err)
	}
	return f.Store.Retain(now.all())
}

// Confirm records that a config is in force, and removes contents that neither this config nor the one before needs.
// After a record of the same config, Confirm does nothing.
func (f *Fetcher) Confirm(name string, c machineconfig.Config) error {
	if f == nil {
		return nil
	}
	was, known, err := f.readRecord()
	if err != nil || known && was.Config == name {
		return err
	}
	now := kept{Config: name, Before: was.Hashes, Ahead: was.Ahead}
	for _, r := range machineconfig.RemoteFiles(c) {
		now.Hashes = append(now.Hashes, r.Hash)
	}
	if !known && len(now.Hashes) == 0 {
		return nil // The machine never had remote files.
	}
	return f.retain(now)
}

// record writes the record of the contents that stay.
func (f *Fetcher) record(now kept) error {
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	dir, err := f.Files.Stat(host.StateDir)
	if err == nil && dir.Kind == host.Absent {
		err = f.Files.Mkdir(host.StateDir, host.Entry{Kind: host.Dir, Mode: 0o700})
	}
	if err != nil {
		return err
	}
	return f.Files.Write(recordPath, host.Entry{Kind: host.File, Mode: 0o600}, text)
}
