package verify

import (
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bunsen-os/bunsen/source"
)

// sshKey is one line of allowed signers.
type sshKey struct {
	blob       string   // the key in SSH's wire format
	who        string   // the principals, or the comment of a plain key
	principals []string // the principals in lower case, without patterns
	options    options
}

// options are the options of a line of allowed signers. The zero value allows all namespaces at any time.
type options struct {
	namespaces  []string
	from, until time.Time
}

var sshTypes = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
}

const (
	minRSA  = 2048 // the smallest size of an RSA key, in bits
	gitName = "git"
)

// addLine reads `[principals [options]] type key [comment]`.
func (k *Keys) addLine(line string) error {
	words, err := fields(line, " \t")
	if err != nil {
		return err
	}
	at := slices.IndexFunc(words[:min(3, len(words))], isType)
	if at < 0 || at+1 >= len(words) {
		return errors.New("want `principals [options] type key [comment]` or `type key [comment]`, with a type such " +
			"as ssh-ed25519")
	}
	var key sshKey
	switch at {
	case 0:
		key.who = strings.Join(words[2:], " ")
	case 1:
		key.who = unquote(words[0])
	case 2:
		key.who = unquote(words[0])
		if key.options, err = parseOptions(words[1]); err != nil {
			return err
		}
	}
	if key.blob, err = parseSSH(words[at], words[at+1]); err != nil {
		return err
	}
	key.who = source.Line(key.who)
	if at > 0 {
		key.principals = strings.Split(strings.ToLower(unquote(words[0])), ",")
		key.principals = slices.DeleteFunc(key.principals, func(p string) bool {
			return p == "" || strings.ContainsAny(p, "*?!")
		})
	}
	k.ssh = append(k.ssh, key)
	return nil
}

// isType reports whether a word has the form of a key's type, known or not.
func isType(word string) bool {
	return slices.Contains(sshTypes, word) || strings.HasPrefix(word, "ssh-") ||
		strings.HasPrefix(word, "ecdsa-sha2-") || strings.HasPrefix(word, "sk-")
}

func parseSSH(name, text string) (string, error) {
	switch {
	case strings.Contains(name, "-cert-v01@"):
		return "", errors.New("the key is a certificate: list the keys of the people themselves")
	case !slices.Contains(sshTypes, name):
		return "", fmt.Errorf("the key's type is not supported: it can be %s", strings.Join(sshTypes, ", "))
	}
	blob, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", errors.New("the key is not base64: copy it whole, on one line")
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil || key.Type() != name {
		// The library's error may contain a part of the key.
		return "", fmt.Errorf("the key does not decode as %s: copy it whole", name)
	}
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		if r, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() < minRSA {
			return "", fmt.Errorf("the RSA key %s has %d bits, at least %d: make a new one, best ed25519",
				ssh.FingerprintSHA256(key), r.N.BitLen(), minRSA)
		}
	}
	return string(key.Marshal()), nil
}

// fields splits a text at separators outside of double quotes.
func fields(text, separators string) ([]string, error) {
	quoted := false
	words := strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && strings.ContainsRune(separators, r)
	})
	if quoted {
		return nil, errors.New(`a double quote is not closed: write options as namespaces="git"`)
	}
	return words, nil
}

func unquote(s string) string { return strings.Trim(s, `"`) }

// safeName matches an option's name that cannot be a part of a key.
var safeName = regexp.MustCompile(`^[a-z][a-z-]{0,30}$`)

func parseOptions(text string) (options, error) {
	var o options
	parts, err := fields(text, ",")
	if err != nil {
		return options{}, err
	}
	seen := map[string]bool{}
	for _, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		name = strings.ToLower(name)
		if !safeName.MatchString(name) {
			return options{}, errors.New("the second word is neither a list of options nor a key's type: write " +
				"`principals [options] type key`")
		}
		if seen[name] {
			return options{}, fmt.Errorf("option %s is repeated: write it once", name)
		}
		seen[name] = true
		if err := o.set(name, value); err != nil {
			return options{}, err
		}
	}
	if !o.from.IsZero() && !o.until.IsZero() && !o.from.Before(o.until) {
		return options{},
			errors.New("valid-after is not before valid-before: no time is left in which the key is valid")
	}
	return o, nil
}

func (o *options) set(name, value string) (err error) {
	if name == "cert-authority" {
		return errors.New("option cert-authority: certificates are not supported: list the keys of the people " +
			"themselves")
	}
	if !slices.Contains([]string{"namespaces", "valid-after", "valid-before"}, name) {
		return fmt.Errorf("unknown option %s: there are namespaces, valid-after and valid-before", name)
	}
	if len(value) < 3 || value[0] != '"' || value[len(value)-1] != '"' {
		return fmt.Errorf("option %s has no value in double quotes: write %s=\"…\"", name, name)
	}
	value = unquote(value)
	switch name {
	case "namespaces":
		o.namespaces = strings.Split(value, ",")
		for _, n := range o.namespaces {
			if n != "*" && strings.ContainsAny(n, "*?!") {
				return errors.New(`option namespaces holds a pattern: write the names, such as namespaces="git"`)
			}
		}
	case "valid-after":
		o.from, err = parseTime(name, value)
	case "valid-before":
		o.until, err = parseTime(name, value)
	}
	return err
}

func parseTime(name, value string) (time.Time, error) {
	value = strings.TrimSuffix(value, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if t, err := time.Parse(layout, value); err == nil && len(value) == len(layout) {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("option %s is not a time: write YYYYMMDD or YYYYMMDDHHMM[SS], in UTC", name)
}

// refuses returns why a key may not sign commits at this time, or "".
func (o options) refuses(now time.Time) string {
	switch {
	case o.namespaces != nil && !slices.Contains(o.namespaces, gitName) && !slices.Contains(o.namespaces, "*"):
		return "is allowed, but not for git: add git to its namespaces"
	case !o.from.IsZero() && now.Before(o.from):
		return "is not valid yet: its line says valid-after=" + o.from.Format(time.RFC3339)
	case !o.until.IsZero() && now.After(o.until):
		return "is not valid any more: its line says valid-before=" + o.until.Format(time.RFC3339) +
			"; sign a new commit with a current key"
	}
	return ""
}
