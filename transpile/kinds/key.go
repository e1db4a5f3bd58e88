package kinds

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// types are the kinds of keys that sshd accepts. The list has no ssh-dss, which sshd refuses, and no certificate, which
// is not a key.
var types = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
}

// options are the options that a key in authorized_keys may have. sshd ignores a key with any other option.
var options = []string{
	"agent-forwarding", "cert-authority", "no-agent-forwarding", "no-port-forwarding", "no-pty", "no-touch-required",
	"no-user-rc",
	"no-x11-forwarding", "port-forwarding", "pty", "restrict", "user-rc", "verify-required", "x11-forwarding",
}

// valued are the options of authorized_keys that have a value in double quotes.
var valued = []string{
	"command", "environment", "expiry-time", "from", "permitlisten", "permitopen", "principals",
	"tunnel",
}

// SSHKeyProblem says what is wrong with a line of authorized_keys, or returns "". Problem never quotes the key.
func SSHKeyProblem(line string) string {
	switch {
	case strings.Contains(line, "PRIVATE KEY"):
		return "this is a private key, and every reader of the repository has it now. Create a new pair, and write " +
			"the line of the .pub file here"
	case line == "" || strings.HasPrefix(line, "#"):
		return "there is no key in this item: write one line of a .pub file"
	case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' }):
		return "an item is one key in one line; write each key as an item of its own"
	}
	if strings.Contains(line, "${") || strings.Contains(line, "{{") {
		return "this is a placeholder of a template, and nothing replaces it on a machine: write the line of a " +
			".pub file"
	}
	key, _, opts, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(rest) > 0 {
		return "not a public key: it is a line like `ssh-ed25519 AAAA… name`; check that it was copied as a whole"
	}
	if !slices.Contains(types, key.Type()) {
		return "keys of type " + key.Type() + " are not accepted by sshd; use ssh-ed25519 or ecdsa, or ssh-rsa"
	}
	for _, o := range opts {
		if problem := optionProblem(o); problem != "" {
			return problem
		}
	}
	return ""
}

// optionProblem says what is wrong with one option of a key, or returns "".
func optionProblem(option string) string {
	name, value, hasValue := strings.Cut(option, "=")
	name = strings.ToLower(name)
	switch {
	case slices.Contains(options, name) && hasValue:
		return "the option " + name + " has no value"
	case slices.Contains(options, name):
		return ""
	case !slices.Contains(valued, name):
		return "sshd has no option with this name, and would ignore the key: options are " +
			strings.Join(slices.Concat(options, valued), ", ")
	case len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"':
		return "the option " + name + " needs a value in double quotes, as in " + name + `="…"`
	}
	return ""
}
