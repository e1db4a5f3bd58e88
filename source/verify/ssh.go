package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"fmt"
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

func (k Keys) checkSSH(o object, now time.Time) (string, error) {
	block, after := pem.Decode([]byte(o.signature))
	if block == nil || block.Type != "SSH SIGNATURE" || len(block.Headers) > 0 || len(bytes.TrimSpace(after)) > 0 {
		return "", refuse("the commit's SSH signature is damaged: it is not one armored block; create the commit again")
	}
	var e envelope
	blob, ok := bytes.CutPrefix(block.Bytes, []byte(magic))
	if !ok || ssh.Unmarshal(blob, &e) != nil {
		return "", refuse("the commit's SSH signature is damaged: it cannot be read; create the commit again")
	}
	if e.Version != 1 || e.Namespace != gitName {
		return "", refuse("the commit's SSH signature has version %d and namespace %.40q, not version 1 and namespace %q, so it is not a signature of git: sign with `git commit -S`",
			e.Version, e.Namespace, gitName)
	}
	key, err := ssh.ParsePublicKey([]byte(e.PublicKey))
	if err != nil {
		return "", refuse("the commit's SSH signature is damaged: its key cannot be read, or is of a type that is not supported; create the commit again")
	}
	signer := "ssh " + ssh.FingerprintSHA256(key)
	who, err := k.allowedSSH(string(key.Marshal()), signer, now)
	if err != nil {
		return "", err
	}
	if err := e.check(key, signer, o.payload); err != nil {
		return "", err
	}
	if who != "" {
		signer += " (" + who + ")"
	}
	return signer, nil
}

// allowedSSH finds a line that allows the key now, and returns the owner of the key.
func (k Keys) allowedSSH(blob, signer string, now time.Time) (who string, err error) {
	err = unknownKey(signer)
	for _, a := range k.ssh {
		if a.blob != blob {
			continue
		}
		why := a.options.refuses(now)
		if why == "" {
			return a.who, nil
		}
		err = refuse("the commit is signed by %s, which %s", signer, why)
	}
	return "", err
}

// check verifies the signature of the payload.
func (e envelope) check(key ssh.PublicKey, signer string, payload []byte) error {
	var digest []byte
	switch e.Hash {
	case "sha256":
		sum := sha256.Sum256(payload)
		digest = sum[:]
	case "sha512":
		sum := sha512.Sum512(payload)
		digest = sum[:]
	default:
		return refuse("the signature of %s uses the hash %.20q, not sha256 or sha512: sign with git commit -S", signer, e.Hash)
	}
	var sig ssh.Signature
	if ssh.Unmarshal([]byte(e.Signature), &sig) != nil {
		return damaged(signer)
	}
	// The signature does not cover its own format. So only the format of the key's type is accepted.
	if sig.Format == ssh.KeyAlgoRSA {
		return refuse("the signature of %s uses SHA-1 (ssh-rsa), which can be forged: sign with OpenSSH 8.2 or later, or with an ed25519 key", signer)
	}
	message := fmt.Appendf(nil, "%s%s", magic, ssh.Marshal(signed{e.Namespace, e.Reserved, e.Hash, string(digest)}))
	if key.Verify(message, &sig) != nil {
		return damaged(signer)
	}
	return nil
}
