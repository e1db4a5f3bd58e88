package repository

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
)

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
