package repository

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// HashOptions are the flags of the verb.
type HashOptions struct {
	// Images are references that stand in no document.
	Images []string
	// Missing leaves out addresses that have a hash.
	Missing bool
	Check   bool
	// CAFile has further CA certificates in PEM.
	CAFile string
	// Progress is called during a download with the bytes so far; total is 0 if the server did not say it.
	Progress func(address string, have, total int64)
}

// The kinds of results.
const (
	kindFile  = "file"
	kindImage = "image"
)

// HashResult is one address.
type HashResult struct {
	// File is empty for an image of Options.Images.
	File string `json:"file"`
	Line int    `json:"line"`
	// Kind is file or image.
	Kind string `json:"kind"`
	// Address is that of a file without its query, or the reference of an image without its digest.
	Address string `json:"address"`
	// Hash is the hash of a file, or the digest of an image.
	Hash string `json:"hash"`
	// Before is the hash or digest in the document; empty for none.
	Before string `json:"before,omitempty"`
	// Bytes is the size after decompression; of an image 0.
	Bytes   int64 `json:"bytes"`
	Changed bool  `json:"changed"`
}

type run struct {
	HashOptions
	client *download.Client
	// the results so far, for addresses that several documents name
	sums   map[machineconfig.Remote]sum
	images map[machineconfig.Artifact]machineconfig.Artifact
}

// Run downloads the remote files of documents, asks for the digests of their images, and edits the documents. An
// address that fails leaves its document unchanged, and without a result. The error joins all failures.
func (o HashOptions) Run(ctx context.Context, paths []string) (all []HashResult, _ error) {
	options := download.Options{
		Logins: logins(), Mirrors: userMirrors(), Failures: download.NewFailures(),
		Agent: "bunsen", Stall: download.Stall, Rate: 1 << 40,
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, cli.Invalid(fmt.Errorf("reading --ca-file: %w", err))
		}
		options.Authorities = [][]byte{pem}
	}
	r := run{
		HashOptions: o, client: download.New(options), sums: map[machineconfig.Remote]sum{},
		images: map[machineconfig.Artifact]machineconfig.Artifact{},
	}
	var invalid, unreachable []error
	add := func(results []HashResult, err error) {
		all = append(all, results...)
		err = o.trusting(err)
		var download *fetch.Error
		if errors.As(err, &download) {
			unreachable = append(unreachable, err)
		} else if err != nil {
			invalid = append(invalid, err)
		}
	}
	for _, p := range paths {
		add(r.file(ctx, p))
	}
	for _, image := range o.Images {
		add(r.named(ctx, image))
	}
	if len(invalid) > 0 {
		return all, cli.Invalid(errors.Join(append(invalid, unreachable...)...))
	}
	if len(unreachable) > 0 {
		return all, cli.Unreachable(errors.Join(unreachable...))
	}
	return all, nil
}

// trusting adds what to do about a server whose certificate no known authority signed, but whom the user trusts.
func (o HashOptions) trusting(err error) error {
	switch {
	case !fetch.IsUntrusted(err):
		return err
	case o.CAFile != "":
		return fmt.Errorf("%w; the authority is not in the file of --ca-file either", err)
	}
	return fmt.Errorf("%w; if you trust the server, name a file with its authority in --ca-file, and the authority in "+
		"ignition.security.tls.certificate_authorities of the config, for the nodes", err)
}

// userMirrors returns the mirrors of registries, as podman finds them.
func userMirrors() download.Mirrors {
	conf := os.Getenv("CONTAINERS_REGISTRIES_CONF")
	if home, err := os.UserHomeDir(); conf == "" && err == nil {
		conf = filepath.Join(home, ".config", "containers", "registries.conf")
		if _, err := os.Stat(conf); err != nil {
			conf = download.RegistriesConf
		}
	}
	return download.ReadMirrors(conf)
}

// logins returns the user's credentials for registries, as docker login writes them. Without the file, there are none.
func logins() download.Logins {
	dir := os.Getenv("DOCKER_CONFIG")
	if home, err := os.UserHomeDir(); dir == "" && err == nil {
		dir = filepath.Join(home, ".docker")
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil
	}
	found, err := download.ParseLogins(text)
	if err != nil {
		return nil
	}
	return found
}

type sum struct {
	hash string
	size int64
}

// named looks up an image that stands in no document.
func (o run) named(ctx context.Context, image string) ([]HashResult, error) {
	s := RemoteSource{Address: image, IsImage: true}
	r, err := o.image(ctx, &s)
	if err != nil {
		return nil, fmt.Errorf("--image: %w", err)
	}
	return []HashResult{r}, nil
}

// image looks up the digest that an image's tag names now, and records a new reference in the source. An image with a
// digest and without a tag keeps its digest.
func (o run) image(ctx context.Context, s *RemoteSource) (HashResult, error) {
	is, err := machineconfig.ParseImage(s.Address)
	if err != nil && !errors.Is(err, machineconfig.ErrNoImageDigest) {
		return HashResult{}, err
	}
	before := is.Digest
	if before == "" {
		is.Tag = cmp.Or(is.Tag, "latest") // The reference must say which tag a later check looks at.
	}
	if is.Transport == "" {
		at := is.Artifact()
		found, known := o.images[at]
		if !known {
			if found, err = o.client.ResolveImage(ctx, at); err != nil {
				return HashResult{}, &fetch.Error{Address: s.Address, Err: err}
			}
			o.images[at] = found
		}
		is.Digest = found.Digest
	} else if is.Digest == "" {
		return HashResult{}, fmt.Errorf("%s is an image that nodes have already, and no registry knows its digest: "+
			"write "+
			"@sha256:… behind it", s.Address)
	}
	r := HashResult{Line: s.Line, Kind: kindImage, Hash: is.Digest, Before: before, Changed: is.Digest != before}
	if r.Changed {
		s.Resolved = is.String()
	}
	is.Digest = ""
	r.Address = is.String()
	return r, nil
}

func (o run) file(ctx context.Context, path string) ([]HashResult, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	sources, err := FindRemote(text)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	var results []HashResult
	var bad []error
	hashes := make([]string, len(sources))
	for i := range sources {
		if o.Missing && sources[i].IsComplete() {
			continue
		}
		var r HashResult
		if sources[i].IsImage {
			r, err = o.image(ctx, &sources[i])
		} else {
			r, err = o.source(ctx, &sources[i])
			hashes[i] = r.Hash
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("%s:%d: %w", path, sources[i].Line, err))
			continue
		}
		r.File = path
		results = append(results, r)
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	edited, err := WriteHashes(text, sources, hashes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.Check || bytes.Equal(edited, text) {
		return results, nil
	}
	return results, replace(path, edited)
}

func (o run) source(ctx context.Context, s *RemoteSource) (HashResult, error) {
	r, err := s.Remote(s.Function())
	if strings.HasPrefix(s.Address, machineconfig.ArtifactScheme) &&
		(err == nil || errors.Is(err, machineconfig.ErrNoDigest)) {
		r, err = resolve(ctx, o.client, s)
	}
	if err != nil {
		return HashResult{}, err
	}
	is, known := o.sums[r]
	if !known {
		is, err = o.download(ctx, o.client, r)
		o.sums[r] = is
	}
	return HashResult{
		Line: s.Line, Kind: kindFile, Address: machineconfig.ShownAddress(r.URL), Hash: is.hash, Before: s.Hash,
		Bytes: is.size, Changed: s.Resolved != "" || !strings.EqualFold(is.hash, s.Hash),
	}, err
}

// resolve looks up the digest that the tag of a file in a registry names now, and records a new address in the source.
// A source with a digest and without a tag keeps its digest.
func resolve(ctx context.Context, client *download.Client, s *RemoteSource) (machineconfig.Remote, error) {
	is, err := machineconfig.ParseArtifact(s.Address)
	if err != nil && !errors.Is(err, machineconfig.ErrNoDigest) {
		return machineconfig.Remote{}, err
	}
	if is.Tag != "" || is.Digest == "" {
		was := is
		if is, err = client.Resolve(ctx, is); err != nil {
			return machineconfig.Remote{}, &fetch.Error{Address: was.String(), Err: err}
		}
		if is != was {
			s.Resolved = is.String()
		}
	}
	return machineconfig.Remote{URL: is.Source(), Hash: s.Function(), Gzip: s.Gzip}, nil
}

// replace keeps the mode of a file. A crash leaves the old text or the new one.
func replace(path string, text []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	is, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // it is gone when all goes well
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(is.Mode().Perm()), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	return nil
}

func (o HashOptions) download(ctx context.Context, client *download.Client, r machineconfig.Remote) (sum, error) {
	at := machineconfig.ShownAddress(r.URL)
	answer, body, err := client.Get(ctx, r.URL, map[string]string{"Accept-Encoding": "identity"})
	if err != nil {
		return sum{}, &fetch.Error{Address: at, Err: err}
	}
	defer body.Close() //nolint:errcheck // only read
	if answer.Status != 200 {
		return sum{}, &fetch.Error{Address: at, Err: fmt.Errorf("the server answers %d", answer.Status)}
	}
	from := io.Reader(&counted{body, o.Progress, at, 0, max(answer.Length, 0)})
	if r.Gzip {
		if from, err = gzip.NewReader(from); err != nil {
			return sum{}, fmt.Errorf("unpacking %s: %w; remove `compression`, or serve the contents compressed", at,
				err)
		}
	}
	var function hash.Hash = sha512.New()
	if r.Hash == "sha256" {
		function = sha256.New()
	}
	size, err := io.Copy(function, io.LimitReader(from, host.MaxDownload+1))
	if err != nil {
		return sum{}, &fetch.Error{Address: at, Err: err}
	}
	if size > host.MaxDownload {
		return sum{}, fmt.Errorf("%s has more than %d bytes, and a remote file has at most so many", at,
			host.MaxDownload)
	}
	return sum{r.Hash + "-" + hex.EncodeToString(function.Sum(nil)), size}, nil
}

type counted struct {
	from        io.Reader
	progress    func(address string, have, total int64)
	address     string
	have, total int64
}

// Read implements io.Reader.
func (c *counted) Read(into []byte) (int, error) {
	n, err := c.from.Read(into)
	c.have += int64(n)
	if c.progress != nil {
		c.progress(c.address, c.have, c.total)
	}
	return n, err
}

// HashCommand returns the verb hash.
func HashCommand() *cobra.Command {
	var o HashOptions
	var out cli.Output
	cmd := &cobra.Command{
		Use: "hash FILE...", Short: "Write the hashes of remote files and the digests of OS images into documents",
		GroupID: "offline",
		Long: `Download each file that a document names with contents.source: https://…, http://… or oci://…, and write its hash as
verification.hash into the document. Ask the registry of each osImageURL and baseOSExtensionsContainerImage for the digest that its
tag names now, and write it behind the tag. All other bytes of the document stay, also comments. FILE is a document of Butane,
Ignition or Kubernetes, or a patch.

The hash is that of the contents on a machine: for compression: gzip, it is the hash after decompression. A new hash is a sha512,
which all versions of Ignition know. If the document has a sha256, it stays a sha256.

A file in a registry is the only layer of its artifact, for example of "oras push". For oci://REGISTRY/NAME:TAG, bunsen also writes
the digest that the tag names now. An image for several platforms has the digest of its index. bunsen uses the credentials of "docker login",
but no credential helpers. The next review shows what changed. bunsen stores no downloaded file. It uses the proxies in HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

Exit codes: 0 the documents have the right hashes, 1 a hash or digest differs or is missing, or a tag has moved (with --check),
2 invalid input, 3 a server is unreachable.`,
		Example: `  # Write the hashes of all remote files
  bunsen hash pools/worker/20-kubernetes.bu

  # Only those without a hash, in all documents of a pool
  bunsen hash --missing pools/worker/*.bu

  # The digest of an OS image. Run it again when the tag has moved
  bunsen hash pools/worker/50-os.yaml

  # In CI: fail if a server has other contents than the document says, or if a tag has moved
  bunsen hash --check pools/*/*.bu pools/*/*.yaml -o json

  # An image for a flag such as --os-image
  bunsen hash --image quay.io/example/os:41`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args)+len(o.Images) == 0 {
				return errors.New("hash needs a document, for example: bunsen hash pools/worker/20-kubernetes.bu")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			bar := progressBar{to: cmd.ErrOrStderr()}
			if term.IsTerminal(int(os.Stderr.Fd())) {
				o.Progress = bar.show
			}
			results, err := o.Run(cmd.Context(), args)
			bar.clear()
			if results == nil {
				results = []HashResult{}
			}
			text := hashText(results, o.Check)
			if err != nil && len(results) == 0 { // There was something to hash.
				text = ""
			}
			if bad := out.Print(cmd.OutOrStdout(), safetext.Lines(text), results); bad != nil || err != nil {
				return errors.Join(err, bad)
			}
			return differs(results, o.Check)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"bu", "ign", "yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	out.AddFlag(cmd, "", "table", "json", "yaml")
	flags := cmd.Flags()
	flags.BoolVar(&o.Missing, "missing", false, "leave out files that have a hash, and images that have a digest")
	flags.BoolVar(&o.Check, "check", false, "change no document, and exit with 1 if a hash or digest differs or is "+
		"missing")
	flags.StringArrayVar(&o.Images, "image", nil, "print the reference of this image with its digest (repeatable); "+
		"then FILE is optional")
	flags.StringVar(&o.CAFile, "ca-file", "", "a file with certificates of certificate authorities, in PEM, in "+
		"addition to those of this machine")
	return cmd
}

func hashText(results []HashResult, check bool) string {
	var b strings.Builder
	for _, r := range results {
		what := "unchanged"
		switch {
		case r.Changed && check && r.Before == "":
			what = "missing"
		case r.Changed && check && r.Kind == kindImage:
			what = "the tag has moved from " + r.Before
		case r.Changed && check:
			what = "differs"
		case r.Changed && r.Before == "":
			what = "written"
		case r.Changed:
			what = "updated"
		}
		switch {
		case r.File == "" && !check:
			fmt.Fprintf(&b, "%s@%s\n", r.Address, r.Hash)
		case r.File == "":
			fmt.Fprintf(&b, "%s %s: %s\n", r.Address, r.Hash, what)
		case r.Kind == kindImage:
			fmt.Fprintf(&b, "%s:%d: %s %s: %s\n", r.File, r.Line, r.Address, r.Hash, what)
		default:
			fmt.Fprintf(&b, "%s:%d: %s %s (%d bytes): %s\n", r.File, r.Line, r.Address, r.Hash, r.Bytes, what)
		}
	}
	if len(results) == 0 {
		b.WriteString("nothing to hash: no contents.source with an address, and no image\n")
	}
	return b.String()
}

// differs returns exit code 1 if a check found another hash.
func differs(results []HashResult, check bool) error {
	for _, r := range results {
		if check && r.Changed {
			return &cli.ExitError{Code: cli.ExitDifferent}
		}
	}
	return nil
}

type progressBar struct {
	to   io.Writer
	last time.Time
	used bool
}

func (p *progressBar) show(address string, have, total int64) {
	if time.Since(p.last) < 200*time.Millisecond {
		return
	}
	p.last, p.used = time.Now(), true
	text := fmt.Sprintf("%s %d MiB", safetext.Line(address), have>>20)
	if total > 0 {
		text += fmt.Sprintf(" of %d MiB, %d %%", total>>20, have*100/total)
	}
	fmt.Fprintf(p.to, "\r\x1b[K%s", text)
}

func (p *progressBar) clear() {
	if p.used {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
