package fetch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Partials are downloads that have not ended. All changes are durable when a call returns.
type Partials interface {
	// Partial returns an unfinished download of contents with a hash, and how many of its bytes there are.
	Partial(hash string) (p Partial, have int64, err error)
	// Append adds bytes to an unfinished download, or replaces it if from is 0. Close makes the bytes durable.
	Append(hash string, p Partial, from int64) (io.WriteCloser, error)
	// Commit verifies a complete download, and gives the contents their final name. Contents with another hash are
	// removed, and the error is a *MismatchError.
	Commit(r machineconfig.Remote) error
	// Space returns the free bytes and the size of the disk.
	Space() (free, size int64, err error)
}

// Web requests files from servers.
type Web interface {
	// Get requests an address. The caller closes the body. Reading the body fails if the server sends nothing for a
	// while.
	Get(ctx context.Context, address string, headers map[string]string) (Answer, io.ReadCloser, error)
}

// Progress is how much of a file has been downloaded.
type Progress struct {
	// Address is the address without its query.
	Address string
	// Have counts the bytes. Total is 0 if the server did not say it.
	Have, Total int64
}

// Error is a remote file that could not be downloaded.
type Error struct {
	// Address is the address without its query.
	Address string
	// Err is the reason.
	Err error
}

// Error names the address and the reason.
func (e *Error) Error() string { return fmt.Sprintf("downloading %s: %v", e.Address, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// MismatchError reports that a server has other contents than the config wants.
type MismatchError struct {
	// Want and Got are hashes.
	Want, Got string
}

// Error names both hashes.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("the server has other contents: their hash is %s, and the config has %s. Check what changed "+
		"there, then run `bunsen hash`", e.Got, e.Want)
}

// IsUntrusted reports whether a download failed because no authority that the client trusts signed the certificate of
// the server.
func IsUntrusted(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}

// part is how many bytes of a download are in memory at a time. spaceEvery is how many bytes a download writes before
// it looks at the disk again.
const (
	part       = 256 << 10
	spaceEvery = 16 << 20
)

// Get downloads a remote file, and continues an earlier download of it. The function progress may end the download with
// an error; what was downloaded stays. The error is an *Error.
func Get(ctx context.Context, r machineconfig.Remote, to Partials, from Web, progress func(Progress) error) error {
	err := get(ctx, r, to, from, progress)
	if err == nil {
		return nil
	}
	return &Error{machineconfig.ShownAddress(r.URL), err}
}

func get(ctx context.Context, r machineconfig.Remote, to Partials, from Web, progress func(Progress) error) error {
	p, have, err := to.Partial(r.Hash)
	if err != nil {
		return err
	}
	if have > 0 && have == p.Total && p.Gzip == r.Gzip {
		return to.Commit(r)
	}
	answer, body, err := from.Get(ctx, r.URL, headers(p, have, r))
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // only read
	begin, total, err := start(answer, have)
	if errors.Is(err, errComplete) {
		return to.Commit(r)
	}
	if err != nil {
		return err
	}
	if err := checkRoom(to, total-begin, total); err != nil {
		return err
	}
	d := download{to: to, progress: progress, at: Progress{machineconfig.ShownAddress(r.URL), begin, total}}
	if err := d.append(r, Partial{r.URL, answer.Validator, total, r.Gzip}, body); err != nil {
		return err
	}
	return to.Commit(r)
}

// checkRoom checks the space for the rest of a download and for the file that an update writes from it.
func checkRoom(to Partials, rest, total int64) error {
	free, size, err := to.Space()
	if err != nil {
		return err
	}
	return CheckSpace(free, size, max(rest, 0)+total)
}

// download is one download in progress.
type download struct {
	to       Partials
	progress func(Progress) error
	at       Progress
}

// append stores the body of an answer.
func (d *download) append(r machineconfig.Remote, p Partial, body io.Reader) (err error) {
	out, err := d.to.Append(r.Hash, p, d.at.Have)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	bytes := make([]byte, part)
	for checked := d.at.Have; ; {
		if err := d.progress(d.at); err != nil {
			return err
		}
		n, end := body.Read(bytes)
		if d.at.Have+int64(n) > host.MaxDownload {
			return fmt.Errorf("it has more than %d bytes, and a remote file has at most so many", host.MaxDownload)
		}
		if _, err := out.Write(bytes[:n]); err != nil {
			return err
		}
		d.at.Have += int64(n)
		if d.at.Have-checked >= spaceEvery {
			checked = d.at.Have
			if err := checkRoom(d.to, 0, 0); err != nil {
				return err
			}
		}
		if errors.Is(end, io.EOF) {
			return truncated(d.at)
		}
		if end != nil {
			return end
		}
	}
}

// truncated returns an error if a download ended before its size.
func truncated(at Progress) error {
	if at.Total > 0 && at.Have < at.Total {
		return fmt.Errorf("the server sent %d of %d bytes", at.Have, at.Total)
	}
	return nil
}

// Stored requests a file of the content store by its hash, from the servers of the cluster or from a directory.
type Stored func(ctx context.Context, hash string, headers map[string]string) (Answer, io.ReadCloser, error)

// errNoCluster is the error for a file of the content store where there is no content store.
var errNoCluster = errors.New("the file is in the content store of a cluster, and only its nodes can read it. Run " +
	"`bunsen build --content DIR`, and apply the config with --content DIR")

// WithStored returns a Web that requests files of the content store in one way, and all others from web. The parameter
// stored is nil for a machine without a content store.
func WithStored(web Web, stored Stored) Web { return storedWeb{web, stored} }

// storedWeb chooses by the address.
type storedWeb struct {
	Web
	stored Stored
}

// Get implements Web.
func (w storedWeb) Get(ctx context.Context, address string, headers map[string]string) (Answer, io.ReadCloser, error) {
	hash, ok := machineconfig.StoredHash(address)
	switch {
	case !ok:
		return w.Web.Get(ctx, address, headers)
	case w.stored == nil:
		return Answer{}, nil, errNoCluster
	}
	return w.stored(ctx, hash, headers)
}
