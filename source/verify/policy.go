package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// Policy says which objects of a source need a signature, and which signers may sign them. The zero value allows
// nothing. Policies are immutable and safe for concurrent use.
type Policy struct {
	keys                         Keys
	mode                         v1alpha1.VerificationMode
	signers, committers, authors []string
	digest                       string
}

// The fingerprints that spec.verify.signers may contain. A short OpenPGP key ID is not allowed, because two keys can
// have the same short ID.
var (
	sshFingerprint = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)
	pgpFingerprint = regexp.MustCompile(`^[0-9A-F]{40}([0-9A-F]{24})?$`)
	onlyHex        = regexp.MustCompile(`^(0[xX])?([0-9A-Fa-f] *){8,}$`)
)

// ParsePolicy reads spec.verify of a GitSource that follows ref, and the data of the Secret that it names.
//
// Errors are Stalled InvalidSpec faults that list every problem: those of ParseKeys, a mode that needs a tag although
// the source follows none, and entries that can match no signer.
func ParsePolicy(v v1alpha1.Verification, ref v1alpha1.GitRef, secret map[string][]byte) (Policy, error) {
	p := Policy{mode: v.Mode}
	keys, err := ParseKeys(secret)
	problems := []error{err}
	p.keys = keys
	switch v.Mode {
	case "":
		p.mode = v1alpha1.VerifyHead
	case v1alpha1.VerifyHead, v1alpha1.VerifyRange:
	case v1alpha1.VerifyTag, v1alpha1.VerifyTagAndHead:
		if !followsTag(ref) {
			problems = append(problems, fmt.Errorf("verify.mode %s needs a tag: set ref.tag or ref.semver, and "+
				"neither ref.commit nor another ref.name", v.Mode))
		}
	default:
		problems = append(problems, fmt.Errorf("verify.mode is %q: it can be Head, Tag, TagAndHead or Range", v.Mode))
	}
	for i, s := range v.Signers {
		s, err := parseSigner(s)
		if err != nil {
			problems = append(problems, fmt.Errorf("verify.signers[%d]: %w", i, err))
		}
		p.signers = append(p.signers, s)
	}
	p.committers, err = parseMails("committers", v.Committers)
	problems = append(problems, err)
	p.authors, err = parseMails("authors", v.Authors)
	if err := errors.Join(append(problems, err)...); err != nil {
		return Policy{}, fault.NewStalled(v1alpha1.ReasonInvalidSpec, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %q %q %q", p.keys.Digest(), p.mode, p.signers, p.committers,
		p.authors))
	p.digest = "sha256:" + hex.EncodeToString(sum[:])
	return p, nil
}

// followsTag reports whether the GitSource follows a tag.
func followsTag(ref v1alpha1.GitRef) bool {
	switch {
	case ref.Commit != "":
		return false
	case ref.Name != "":
		return strings.HasPrefix(ref.Name, "refs/tags/")
	}
	return ref.SemVer != "" || ref.Tag != ""
}

// parseSigner returns an entry of verify.signers in the form that an identity has.
func parseSigner(s string) (string, error) {
	s = strings.TrimSpace(s)
	digits := strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X"), " ", ""))
	switch {
	case strings.HasPrefix(s, "SHA256:") && !sshFingerprint.MatchString(s):
		return "", fmt.Errorf(
			"%q is not an SSH fingerprint: `ssh-keygen -lf FILE` prints it, SHA256: and 43 characters", s)
	case strings.HasPrefix(s, "SHA256:"):
		return s, nil
	case onlyHex.MatchString(s) && !pgpFingerprint.MatchString(digits):
		return "", fmt.Errorf("%q is not a whole OpenPGP fingerprint, and two keys can have the same short id: `gpg "+
			"--fingerprint` prints it, 40 or 64 hex digits", s)
	case onlyHex.MatchString(s):
		return digits, nil
	case s == "" || strings.ContainsAny(s, "*?!,\"<> \t\n"):
		return "", fmt.Errorf("%q is neither a fingerprint nor one name: write a principal of the allowed-signers "+
			"file or an e-mail address, without patterns", s)
	}
	return strings.ToLower(s), nil
}

func parseMails(field string, mails []string) (all []string, err error) {
	var problems []error
	for i, m := range mails {
		m = strings.ToLower(strings.TrimSpace(m))
		if m == "" || strings.ContainsAny(m, "*?,<> \t\n") {
			problems = append(problems, fmt.Errorf("verify.%s[%d]: %q is not one e-mail address: write it without a "+
				"name and without patterns", field, i, m))
		}
		all = append(all, m)
	}
	return all, errors.Join(problems...)
}

// Digest identifies the policy, its keys and the rules of this package: `sha256:<hex>`. The digest of the zero value is
// empty.
func (p Policy) Digest() string { return p.digest }

// Check returns who signed the objects that the policy names. Keys must be valid at the time now.
//
// Errors are Stalled SignatureMissing faults. The errors list every commit without a valid signature, by hash, subject
// and committer, with the reason. If the mode is Range and the history since the applied commit is unknown, the fault
// is Retry.
func (p Policy) Check(e source.Evidence, now time.Time) (signer string, err error) {
	switch p.mode {
	case v1alpha1.VerifyHead:
		return p.checkCommit(e.Commit, now, true)
	case v1alpha1.VerifyTag:
		signer, tagErr := p.checkTag(e, now)
		_, headErr := p.checkCommit(e.Commit, now, false)
		return signerOf(signer, joinFaults(tagErr, headErr))
	case v1alpha1.VerifyTagAndHead:
		signer, tagErr := p.checkTag(e, now)
		head, headErr := p.checkCommit(e.Commit, now, true)
		if head != signer {
			signer += " (tag), " + head + " (commit)"
		}
		return signerOf(signer, joinFaults(tagErr, headErr))
	case v1alpha1.VerifyRange:
		return p.checkRange(e, now)
	}
	return "", refuse("no policy for signatures is set, so no commit is allowed")
}

// signerOf returns the signer if err is nil, and otherwise "" and err.
func signerOf(signer string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return signer, nil
}

// joinFaults joins problems into one fault. joinFaults returns nil if there is none.
func joinFaults(problems ...error) error {
	return fault.NewStalled(v1alpha1.ReasonSignature, errors.Join(problems...))
}

// checkCommit checks one commit: its format, who wrote it and, if signed is true, who signed it.
func (p Policy) checkCommit(raw []byte, now time.Time, signed bool) (string, error) {
	o, err := splitCommit(raw)
	if err != nil {
		return "", err
	}
	var by identity
	if signed {
		if by, err = p.checkSigner(o, now); err != nil {
			return "", err
		}
	}
	return signerOf(by.text, joinFaults(isAllowed(o, "committer", p.committers), isAllowed(o, "author", p.authors)))
}

// checkSigner returns who signed an object, if this key may sign for the source.
func (p Policy) checkSigner(o object, now time.Time) (identity, error) {
	by, err := p.keys.check(o, now)
	if err != nil || len(p.signers) == 0 {
		return by, err
	}
	if slices.ContainsFunc(p.signers, func(s string) bool {
		return slices.Contains(by.keys, s) || slices.Contains(by.names, s)
	}) {
		return by, nil
	}
	return identity{}, refuse("the %s is signed by %s, whose key is trusted, but verify.signers allows only %s. Sign "+
		"with one of these keys, or add the signer to verify.signers", o.kind, by.text, strings.Join(p.signers, ", "))
}

// isAllowed checks the e-mail address of a commit's header against a list; an empty list allows all.
func isAllowed(o object, header string, mails []string) error {
	if len(mails) == 0 {
		return nil
	}
	mail := o.mailOf(header)
	if mail == "" {
		return refuse("the %s of the commit has no e-mail address that all programs read alike: %.80q; create the "+
			"commit again with git", header, source.Line(o.header[header]))
	}
	if !slices.Contains(mails, mail) {
		return refuse("the commit's %s is %.80q, but verify.%ss allows only %s", header, source.Line(mail), header,
			strings.Join(mails, ", "))
	}
	return nil
}

// checkTag checks the signature of the tag, and that it is the tag of this ref and of this commit. Without this check,
// a user without a key could push a signed tag under another name.
func (p Policy) checkTag(e source.Evidence, now time.Time) (string, error) {
	name, isTag := strings.CutPrefix(e.Ref, "refs/tags/")
	switch {
	case !isTag:
		return "", refuse("verify.mode %s needs a signed tag, and %.60q is not a tag: set ref.tag or ref.semver",
			p.mode, e.Ref)
	case e.Tag == nil:
		return "", refuse("the tag %.60q is not signed, because it has no object of its own: replace it by a tag "+
			"that an allowed key signed (`git tag -s`)", name)
	}
	o, err := splitTag(e.Tag)
	if err != nil {
		return "", err
	}
	if o.header["tag"] != name {
		return "", refuse("the tag %.60q was created as %.60q, and a user renamed it: create a signed tag with the "+
			"right name (`git tag -s`)", name, source.Line(o.header["tag"]))
	}
	if commit := hashOf(commitKind, e.Commit); o.header["object"] != commit {
		return "", refuse("the tag %.60q names commit %.8s, not %.8s: create the tag again with git", name,
			o.header["object"], commit)
	}
	by, err := p.checkSigner(o, now)
	return by.text, err
}

// splitTag separates the signature at the end of an annotated tag's message from all other bytes. The tag must name a
// commit.
func splitTag(raw []byte) (object, error) {
	end := bytes.Index(raw, []byte("\n\n"))
	if end < 0 || bytes.IndexByte(raw, 0) >= 0 {
		return object{}, tagKind.malformed("its header does not end, or it contains a NUL byte")
	}
	o := object{kind: tagKind, payload: raw, header: map[string]string{}}
	lines := strings.Split(string(raw[:end]), "\n")
	for i, line := range lines {
		key, value, _ := strings.Cut(line, " ")
		if i >= len(tagHeader) || key != tagHeader[i] {
			return object{}, tagKind.malformed("its header line %d begins %.40q; want object, type, tag and tagger, "+
				"once each and in this order", i+1, key)
		}
		o.header[key] = value
	}
	switch {
	case len(lines) < len(tagHeader):
		return object{}, tagKind.malformed("it lacks the header %s", tagHeader[len(lines)])
	case !fullHash.MatchString(o.header["object"]):
		return object{}, tagKind.malformed("its header object is not a SHA-1 hash")
	case o.header["type"] != "commit":
		return object{}, refuse("the tag %.60q names a %.20q, not a commit: tag the commit itself", o.header["tag"],
			o.header["type"])
	}
	at := end + 2
	for offset := at; offset < len(raw); {
		line := raw[offset:]
		if slices.ContainsFunc(begins, func(b string) bool { return bytes.HasPrefix(line, []byte(b)) }) {
			if o.signature != "" {
				return object{}, tagKind.malformed("it has more than one signature")
			}
			o.payload, o.signature = raw[:offset], string(line)
		}
		next := bytes.IndexByte(line, '\n')
		if next < 0 {
			break
		}
		offset += next + 1
	}
	o.message = string(o.payload[at:])
	return o, nil
}

// checkRange checks every commit since the applied commit. checkRange returns the signer of the newest commit.
func (p Policy) checkRange(e source.Evidence, now time.Time) (string, error) {
	signer, err := p.checkCommit(e.Commit, now, true)
	hash := hashOf(commitKind, e.Commit)
	switch {
	case e.Applied == "" || e.Applied == hash || err != nil && len(e.Added) <= 1:
		return signerOf(signer, err)
	case e.Descent == source.Unknown:
		return "", fault.NewRetry(v1alpha1.ReasonSignature, fmt.Errorf("verify.mode Range needs every commit since "+
			"%.8s, which is applied, and the history between it and %.8s cannot be read. To accept this commit "+
			"without the commits before it, set the annotation %s=%s",
			e.Applied, hash, v1alpha1.AcceptAnnotation, hash))
	}
	problems := []error{nil}
	for _, raw := range e.Added {
		if _, err := p.checkCommit(raw, now, true); err != nil {
			o, _ := splitCommit(raw)
			problems = append(problems, fmt.Errorf("%s: %w", describe(raw, o), err))
		}
	}
	if len(problems) > 1 {
		problems[0] = fmt.Errorf("%d of the %d commits since %.8s, which is applied, fail verify.mode Range",
			len(problems)-1, len(e.Added), e.Applied)
	} else if err != nil { // The list of added commits does not contain the commit itself.
		problems[0] = err
	}
	return signerOf(signer, joinFaults(problems...))
}

// describe names a commit in a list of problems: `0123abcd "subject" by Ada <ada@example.com>`. The arguments are the
// object as git stores it, and the parts that could be parsed.
func describe(raw []byte, o object) string {
	by, _, _ := strings.Cut(o.header["committer"], ">")
	text := hashOf(commitKind, raw)[:8]
	if o.kind == "" {
		return text
	}
	return fmt.Sprintf("%s %s by %s>", text, source.Quote(source.Line(o.message)), source.Line(by))
}
