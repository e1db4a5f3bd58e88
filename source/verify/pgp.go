package verify

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/bunsen-os/bunsen/source"
)

func (k Keys) checkPGP(o object, now time.Time) (_ identity, err error) {
	broken := refuse("the %s's OpenPGP signature is damaged: it is not one armored signature; create the %s again",
		o.kind, o.kind)
	defer recoverAs(&err, broken)
	sig, packets, err := readSignature(o, broken)
	if err != nil {
		return identity{}, err
	}
	signer := fmt.Sprintf("pgp %016X", *sig.IssuerKeyId)
	if len(sig.IssuerFingerprint) > 0 {
		signer = fmt.Sprintf("pgp %X", sig.IssuerFingerprint)
	}
	candidates := k.pgp.KeysById(*sig.IssuerKeyId)
	if len(candidates) == 0 {
		return identity{}, o.kind.unknownKey(signer)
	}
	for _, c := range candidates {
		if weakness := weaknessOf(c.PublicKey); weakness != "" {
			return identity{}, refuse("the %s is signed by %s, which is %s: sign with a stronger key, best ed25519",
				o.kind, signer, weakness)
		}
	}
	at := &packet.Config{Time: func() time.Time { return now }}
	_, entity, err := openpgp.VerifyDetachedSignature(k.pgp, bytes.NewReader(o.payload), bytes.NewReader(packets), at)
	if err != nil {
		return identity{}, explainPGP(o.kind, signer, err)
	}
	return identityOf(entity, candidates, now), nil
}

// readSignature reads exactly one signature over plain bytes, made with a hash that cannot be forged.
func readSignature(o object, broken error) (*packet.Signature, []byte, error) {
	armored := o.signature
	if strings.Count(armored, "-----BEGIN ") != 1 || !strings.HasSuffix(strings.TrimSpace(armored),
		"-----END PGP SIGNATURE-----") {
		return nil, nil, broken
	}
	block, err := armor.Decode(strings.NewReader(armored))
	if err != nil || block.Type != openpgp.SignatureType {
		return nil, nil, broken
	}
	data, err := io.ReadAll(block.Body)
	if err != nil {
		return nil, nil, broken
	}
	packets := packet.NewReader(bytes.NewReader(data))
	first, err := packets.Next()
	if err != nil {
		return nil, nil, broken
	}
	sig, ok := first.(*packet.Signature)
	if _, err := packets.Next(); !ok || !errors.Is(err, io.EOF) || sig.IssuerKeyId == nil {
		return nil, nil, broken
	}
	if sig.SigType != packet.SigTypeBinary {
		return nil, nil, refuse("the %s's OpenPGP signature is of type %d, not over plain bytes: sign with git", o.kind,
			sig.SigType)
	}
	if !slices.Contains([]crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256, crypto.SHA3_512},
		sig.Hash) {
		return nil, nil, refuse("the %s's OpenPGP signature uses the hash %v, which can be forged: sign with SHA-256 "+
			"or better (digest-algo in gpg.conf)", o.kind, sig.Hash)
	}
	return sig, data, nil
}

// weaknessOf returns why a key is too weak, or "".
func weaknessOf(key *packet.PublicKey) string {
	switch key.PubKeyAlgo {
	case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSASignOnly:
		if r, ok := key.PublicKey.(*rsa.PublicKey); ok && r.N.BitLen() < minRSA {
			return fmt.Sprintf("an RSA key of %d bits", r.N.BitLen())
		}
	case packet.PubKeyAlgoECDSA, packet.PubKeyAlgoEdDSA, packet.PubKeyAlgoEd25519, packet.PubKeyAlgoEd448:
	default:
		return fmt.Sprintf("of kind %d, outdated or not for signing", key.PubKeyAlgo)
	}
	return ""
}

func explainPGP(signed kind, signer string, err error) error {
	switch {
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return refuse("the %s is signed by %s, which is among the allowed keys but not meant for signing: sign with "+
			"the signing key", signed, signer)
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return refuse("the %s is signed by %s, which is revoked: sign a new %s with another key", signed, signer,
			signed)
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return refuse("the key %s of the signature has expired. Extend it and update the Secret of verify.secretRef, "+
			"or sign a new %s with another key", signer, signed)
	case errors.Is(err, pgperrors.ErrSignatureExpired):
		return refuse("the signature of %s is not valid now: it has expired, or was made by a clock that is ahead; "+
			"create the %s again", signer, signed)
	}
	return signed.damaged(signer)
}

// recoverAs turns a panic in the OpenPGP library into an error. Some versions index past the end of truncated packets.
// Anyone who can push can choose the packets, and they must not crash the controller.
func recoverAs(err *error, otherwise error) {
	if recover() != nil {
		*err = otherwise
	}
}

// identityOf describes an OpenPGP key. text has the key's fingerprint and its primary identity, or else its first one;
// keys are the fingerprints of the key and of the subkeys that may have made the signature; names are the addresses of
// the valid identities.
func identityOf(e *openpgp.Entity, candidates []openpgp.Key, now time.Time) identity {
	id := identity{
		text: fmt.Sprintf("pgp %X", e.PrimaryKey.Fingerprint),
		keys: []string{fmt.Sprintf("%X", e.PrimaryKey.Fingerprint)},
	}
	for _, c := range candidates {
		if c.Entity == e && c.PublicKey != nil {
			id.keys = append(id.keys, fmt.Sprintf("%X", c.PublicKey.Fingerprint))
		}
	}
	names := slices.Sorted(maps.Keys(e.Identities))
	primary := -1
	for i, n := range names {
		who := e.Identities[n]
		if s := who.SelfSignature; s != nil && s.IsPrimaryId != nil && *s.IsPrimaryId && primary < 0 {
			primary = i
		}
		if who.UserId != nil && who.UserId.Email != "" && !who.Revoked(now) && who.SelfSignature != nil &&
			!who.SelfSignature.SigExpired(now) {
			id.names = append(id.names, strings.ToLower(who.UserId.Email))
		}
	}
	if len(names) > 0 {
		id.text += " (" + source.Line(names[max(primary, 0)]) + ")"
	}
	return id
}
