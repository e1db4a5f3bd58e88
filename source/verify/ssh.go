package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const magic = "SSHSIG"

// envelope is the part of an SSH signature after the magic, as OpenSSH's PROTOCOL.sshsig defines it.
type envelope struct {
	Version   uint32
	PublicKey string
	Namespace string
	Reserved  string
	Hash      string
	Signature string
}

// signed is the data that an SSH signature covers, after the magic.
type signed struct{ Namespace, Reserved, Hash, Digest string }

func (k Keys) checkSSH(o object, now time.Time) (identity, error) {
	block, after := pem.Decode([]byte(o.signature))
	if block == nil || block.Type != "SSH SIGNATURE" || len(block.Headers) > 0 || len(bytes.TrimSpace(after)) > 0 ||
		strings.Contains(o.signature, "\r") {
		return identity{}, refuse("the %s's SSH signature is damaged: it is not one armored block; create the %s again",
			o.kind, o.kind)
	}
	var e envelope
	blob, ok := bytes.CutPrefix(block.Bytes, []byte(magic))
	if !ok || ssh.Unmarshal(blob, &e) != nil {
		return identity{}, refuse("the %s's SSH signature is damaged: it cannot be read; create the %s again", o.kind,
			o.kind)
	}
	if e.Version != 1 || e.Namespace != gitName {
		return identity{}, refuse("the %s's SSH signature has version %d and namespace %.40q, not version 1 and "+
			"namespace %q, so it is not a signature of git: sign with git",
			o.kind, e.Version, e.Namespace, gitName)
	}
	key, err := ssh.ParsePublicKey([]byte(e.PublicKey))
	if err != nil {
		return identity{}, refuse("the %s's SSH signature is damaged: its key cannot be read, or is of a type that "+
			"is not supported; create the %s again", o.kind, o.kind)
	}
	print := ssh.FingerprintSHA256(key)
	signer := identity{text: "ssh " + print, keys: []string{print}}
	line, err := k.allowedSSH(o, string(key.Marshal()), signer.text, now)
	if err != nil {
		return identity{}, err
	}
	if err := e.check(o, key, signer.text); err != nil {
		return identity{}, err
	}
	if line.who != "" {
		signer.text += " (" + line.who + ")"
	}
	signer.names = line.principals
	return signer, nil
}

// allowedSSH finds a line that allows the key at two times: now, and at the time in the object. The owner of the key
// chooses the time in the object, so this time alone allows nothing.
func (k Keys) allowedSSH(o object, blob, signer string, now time.Time) (sshKey, error) {
	err := o.kind.unknownKey(signer)
	made, dated := o.date()
	for _, a := range k.ssh {
		if a.blob != blob {
			continue
		}
		why := a.options.refuses(now)
		if why == "" && dated && a.options.refuses(made) != "" {
			why = fmt.Sprintf("was not valid at the time of the %s, %s: see valid-after and valid-before of its line",
				o.kind, made.Format(time.RFC3339))
		}
		if why == "" {
			return a, nil
		}
		err = refuse("the %s is signed by %s, which %s", o.kind, signer, why)
	}
	return sshKey{}, err
}

// check verifies the signature of the payload.
func (e envelope) check(o object, key ssh.PublicKey, signer string) error {
	var digest []byte
	switch e.Hash {
	case "sha256":
		sum := sha256.Sum256(o.payload)
		digest = sum[:]
	case "sha512":
		sum := sha512.Sum512(o.payload)
		digest = sum[:]
	default:
		return refuse("the signature of %s uses the hash %.20q, not sha256 or sha512: sign with git", signer, e.Hash)
	}
	var sig ssh.Signature
	if ssh.Unmarshal([]byte(e.Signature), &sig) != nil {
		return o.kind.damaged(signer)
	}
	// The signature does not cover its own format. So check accepts only the format that belongs to the key's type.
	if sig.Format == ssh.KeyAlgoRSA {
		return refuse("the signature of %s uses SHA-1 (ssh-rsa), which can be forged: sign with OpenSSH 8.2 or "+
			"later, or with an ed25519 key", signer)
	}
	message := fmt.Appendf(nil, "%s%s", magic, ssh.Marshal(signed{e.Namespace, e.Reserved, e.Hash, string(digest)}))
	if key.Verify(message, &sig) != nil {
		return o.kind.damaged(signer)
	}
	return nil
}
