package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/process"
)

// binaryPath is the path of a file in the config. This file names the daemon's binary.
const binaryPath = "/etc/machine-config-daemon/binary.json"

// largestBinary is the maximum size of a downloaded binary.
const largestBinary = 256 << 20

// namedBinary is the address and the digest of the binary for one architecture.
type namedBinary struct {
	URL    string `json:"url"`
	SHA512 string `json:"sha512"`
}

// updateOptions are the flags of the command update.
type updateOptions struct {
	from, to string
	source
}

func newUpdate() *cobra.Command {
	var o updateOptions
	cmd := &cobra.Command{
		Use:   "update",
		Short: "Replace this program by the binary that the machine's config names",
		Long: `update reads ` + binaryPath + `, which has the URL and the SHA-512 of a binary for each architecture:

  {"amd64": {"url": "https://releases.example.com/v2/machine-config-daemon-linux-amd64", "sha512": "…"}}

If this program has another hash, update downloads the named binary and checks its hash. update runs the new binary once, to
check that it works on this machine, and replaces this program. The service of the daemon notices the new binary and restarts
with it. update decompresses a URL that ends in .gz; the hash is that of the decompressed binary. The unit
machine-config-daemon-update.service runs update.

Exit codes: 0 the program is the binary that the file names, 1 failed, and the program is unchanged.`,
		Example: `  machine-config-daemon update
  machine-config-daemon update --from binary.json --to /opt/bin/machine-config-daemon`,
		Args: process.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", binaryPath, "file with the URLs and hashes of the binaries")
	f.StringVar(&o.to, "to", self, "program to replace")
	f.StringVar(&o.ca, "ca", "", "file of PEM certificates of the CAs that update trusts for the URL's server, "+
		"instead of the system's CAs")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long the download may take")
	return cmd
}

func (o *updateOptions) run(ctx context.Context, out io.Writer) error {
	want, err := readRelease(o.from)
	if err != nil {
		return err
	}
	if is, err := os.ReadFile(o.to); err == nil && hashOf(is) == want.SHA512 {
		fmt.Fprintf(out, "%s is the binary that %s names\n", o.to, o.from)
		return nil
	}
	content, err := o.fetch(ctx, want.URL)
	if err != nil {
		return fmt.Errorf("downloading %s: %w", want.URL, err)
	}
	if is := hashOf(content); is != want.SHA512 {
		return fmt.Errorf("downloading %s: its SHA-512 is %s, and %s names %s; correct the URL or the hash in "+
			"the config", want.URL, is, o.from, want.SHA512)
	}
	next := filepath.Join(filepath.Dir(o.to), "."+filepath.Base(o.to)+".next")
	defer os.Remove(next) //nolint:errcheck // it is renamed, or of no use
	if err := writeProgram(bytes.NewReader(content), next); err != nil {
		return err
	}
	version, err := versionOf(ctx, next)
	if err != nil {
		return err
	}
	if err := os.Rename(next, o.to); err != nil {
		return fmt.Errorf("replacing %s: %w", o.to, err)
	}
	fmt.Fprintf(out, "%s is now version %s, from %s\n", o.to, version, want.URL)
	return nil
}

// readRelease reads a release, and returns the binary for this machine's architecture.
func readRelease(from string) (namedBinary, error) {
	text, err := os.ReadFile(from)
	if err != nil {
		return namedBinary{}, fmt.Errorf("reading which binary to run: %w", err)
	}
	var all map[string]namedBinary
	if err := json.Unmarshal(text, &all); err != nil {
		return namedBinary{}, fmt.Errorf("reading %s: %w; it has a URL and a SHA-512 for each architecture, see "+
			"`machine-config-daemon update --help`", from, err)
	}
	r, ok := all[runtime.GOARCH]
	r.SHA512 = strings.ToLower(r.SHA512)
	switch {
	case !ok:
		return r, fmt.Errorf("reading %s: it names no binary for %s", from, runtime.GOARCH)
	case !strings.HasPrefix(r.URL, "https://") && !strings.HasPrefix(r.URL, "http://"):
		return r, fmt.Errorf("reading %s: url %q: want https://… or http://…", from, r.URL)
	case len(r.SHA512) != 2*sha512.Size:
		return r, fmt.Errorf("reading %s: sha512 of %s: want %d hexadecimal digits", from, runtime.GOARCH,
			2*sha512.Size)
	}
	return r, nil
}

func (o *updateOptions) fetch(ctx context.Context, url string) ([]byte, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", programName+"/"+versionText())
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answered %s", answer.Status)
	}
	var body io.Reader = answer.Body
	if strings.HasSuffix(url, ".gz") {
		if body, err = gzip.NewReader(body); err != nil {
			return nil, fmt.Errorf("decompressing it: %w", err)
		}
	}
	content, err := io.ReadAll(io.LimitReader(body, largestBinary+1))
	if err == nil && len(content) > largestBinary {
		err = fmt.Errorf("it is longer than %d MiB", largestBinary>>20)
	}
	return content, err
}

func hashOf(content []byte) string { return fmt.Sprintf("%x", sha512.Sum512(content)) }

// versionOf runs a binary once and returns its version. The run shows that the binary works on this machine.
func versionOf(ctx context.Context, binary string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "version").CombinedOutput()
	if err != nil {
		return "", errors.Join(fmt.Errorf("running %s: %w; it does not work on this machine", binary, err),
			errors.New(strings.TrimSpace(string(out))))
	}
	return strings.TrimSpace(string(out)), nil
}

// replacedEvery is the interval at which the daemon checks whether its binary or its unit file was replaced.
const replacedEvery = 10 * time.Second

// ownUnits are the paths of the unit files of the daemon's service. The config can replace these files.
var ownUnits = []string{
	"/etc/systemd/system/machine-config-daemon.service",
	"/etc/systemd/system/machine-config-daemon.service.d/*",
}

// awaitReplaced calls end when the program's file or a unit file of the service has changed. The config,
// `machine-config-daemon update`, a package or a sysext can change these files. Then systemd starts the service again.
// If the new program cannot run on this machine, awaitReplaced logs this, and the old program continues.
func awaitReplaced(ctx context.Context, every time.Duration, log *slog.Logger, end func()) {
	program, err := os.Executable()
	if err != nil {
		log.Warn("cannot find this program's file, so the daemon does not notice when it is replaced", "err", err)
		return
	}
	files := func() string { return fingerprint(append([]string{program}, ownUnits...)) }
	began, rejected := files(), ""
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := files()
		if now == began || now == rejected {
			continue
		}
		version, err := versionOf(ctx, program)
		if err != nil {
			rejected = now
			log.Error("the daemon's program was replaced by one that does not run; continuing with the old one",
				"program", program, "err", err)
			continue
		}
		log.Info("the daemon's program or unit was replaced: restarting", "program", program, "version", version)
		end()
		return
	}
}

// fingerprint returns a text about files that differs after a file was replaced.
func fingerprint(patterns []string) string {
	var b strings.Builder
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			continue // The patterns are constant, except for the path of the program.
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				fmt.Fprintf(&b, "%s %d %s %s\n", path, info.Size(), info.ModTime(), fs.FileMode.String(info.Mode()))
			}
		}
	}
	return b.String()
}

// programName is the name of the binary on a machine.
const programName = "machine-config-daemon"

func newCopy() *cobra.Command {
	return &cobra.Command{
		Use:   "copy DIRECTORY",
		Short: "Copy this program into a directory",
		Long: `copy writes this program to DIRECTORY/` + programName +
			`. The image of the daemon has no other program that can copy files. An
init container of machine-config-server runs it, so that the server can install the daemon on new machines.`,
		Example: `  machine-config-daemon copy /daemon`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{Err: errors.New("copy needs one directory")}
			}
			from, err := os.Open("/proc/self/exe")
			if err != nil {
				return fmt.Errorf("reading this program: %w", err)
			}
			defer from.Close() //nolint:errcheck // it was only read
			return writeProgram(from, filepath.Join(args[0], programName))
		},
	}
}

// writeProgram replaces a program on the disk atomically.
func writeProgram(from io.Reader, to string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Chmod(0o755)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return nil
}
