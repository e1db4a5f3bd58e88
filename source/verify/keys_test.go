package verify_test

import (
	"bytes"
	"crypto"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/verify"
)

var hashes = map[byte]crypto.Hash{2: crypto.SHA1, 8: crypto.SHA256}

func armored(sig *packet.Signature) string {
	var out bytes.Buffer
	w := must(armor.Encode(&out, openpgp.SignatureType, nil))
	if err := errors.Join(sig.Serialize(w), w.Close()); err != nil {
		panic(err)
	}
	return out.String()
}

func privatePGP(e *openpgp.Entity, kind string) string {
	var out bytes.Buffer
	w := must(armor.Encode(&out, kind, nil))
	if err := errors.Join(e.SerializePrivateWithoutSigning(w, nil), w.Close()); err != nil {
		panic(err)
	}
	return out.String() + "\n"
}

// TestWhatIsNoKeyIsSaid: each value is refused at its line, and no error repeats any of it.
func TestWhatIsNoKeyIsSaid(t *testing.T) {
	p := everybody()
	good := publicSSH(p.alice)
	kind, blob, _ := strings.Cut(good, " ")
	private := string(pem.EncodeToMemory(must(ssh.MarshalPrivateKey(ed25519Key(), ""))))
	pgp := publicPGP(p.ada)
	for name, test := range map[string]struct {
		value string
		want  string
	}{
		"an empty value":                          {"", "k: holds no key"},
		"comments alone":                          {"# nothing\n\n", "k: holds no key"},
		"a binary key":                            {"\x99\x01\x0d\x04", "k: is not text: export an OpenPGP key with gpg --armor"},
		"a word":                                  {"alice", "k:1: want `principals"},
		"a name without a key":                    {"# c\nalice ssh-ed25519", "k:2: want `principals"},
		"a key that is cut off":                   {"alice " + kind + " " + blob[:len(blob)-12], "k:1: the key does not decode as ssh-ed25519"},
		"a key that is no base64":                 {"alice " + kind + " " + blob[:20] + "*" + blob[21:], "k:1: the key is not base64"},
		"a key of another type than it says":      {"alice ssh-rsa " + blob, "k:1: the key does not decode as ssh-rsa"},
		"a DSA key":                               {"alice ssh-dss " + blob, "k:1: the key's type is not supported: it can be ssh-ed25519"},
		"a certificate":                           {"alice ssh-ed25519-cert-v01@openssh.com " + blob, "k:1: the key is a certificate"},
		"an RSA key that is too short":            {publicSSH(p.short), "k:1: the RSA key " + fingerprint(p.short) + " has 1024 bits, at least 2048"},
		"a certificate authority":                 {"*@x cert-authority " + good, "k:1: option cert-authority: certificates are not supported"},
		"an unknown option":                       {`a restrict ` + good, "k:1: unknown option restrict: there are namespaces"},
		"an option twice":                         {`a namespaces="git",namespaces="git" ` + good, "k:1: option namespaces is repeated"},
		"an option without a value":               {`a namespaces ` + good, "k:1: option namespaces has no value in double quotes"},
		"an option without quotes":                {`a valid-after=20250101 ` + good, "k:1: option valid-after has no value in double quotes"},
		"a pattern of namespaces":                 {`a namespaces="git*" ` + good, "k:1: option namespaces holds a pattern"},
		"a negated namespace":                     {`a namespaces="*,!git" ` + good, "k:1: option namespaces holds a pattern"},
		"a time that is none":                     {`a valid-before="tomorrow" ` + good, "k:1: option valid-before is not a time: write YYYYMMDD"},
		"no time at all":                          {`a valid-after="2025",valid-before="2024" ` + good, "k:1: option valid-after is not a time"},
		"an end before the beginning":             {`a valid-after="20250102",valid-before="20250101" ` + good, "k:1: valid-after is not before valid-before"},
		"a quote that is not closed":              {`"a b ` + good, "k:1: a double quote is not closed"},
		"a key in the place of options":           {"a " + blob + " " + good, "k:1: the second word is neither a list of options"},
		"a private ssh key":                       {"\n" + private, "k:2: holds a private key: put the public key here, and replace"},
		"a private OpenPGP key":                   {privatePGP(p.eve, openpgp.PrivateKeyType), "k:1: holds a private key"},
		"a private OpenPGP key that says public":  {privatePGP(p.eve, openpgp.PublicKeyType), "k:1: the OpenPGP block holds a private key"},
		"an X.509 certificate":                    {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "k:1: an armored block that is not PGP PUBLIC KEY BLOCK"},
		"an OpenPGP block without an end":         {pgp[:200], "k:1: the block does not end with -----END PGP"},
		"an OpenPGP block with a piece taken out": {pgp[:150] + pgp[190:], "k:1: the OpenPGP block"},
		"an OpenPGP block with nothing in it":     {"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n-----END PGP PUBLIC KEY BLOCK-----\n", "k:1: the OpenPGP block's key number 1 cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify.ParseKeys(map[string][]byte{"k": []byte(test.value), "other": []byte(good)})
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Stalled || f.Reason != v1alpha1.ReasonInvalidSpec ||
				!strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			for _, word := range strings.Fields(test.value) {
				if len(word) > 30 && strings.Contains(err.Error(), word[:30]) && !strings.Contains(test.want, word) {
					t.Errorf("the error repeats %q: %v", word, err)
				}
			}
		})
	}
}

func TestEveryProblemIsListed(t *testing.T) {
	_, err := verify.ParseKeys(map[string][]byte{
		"b": []byte("x\n\ny"),
		"a": []byte("# c\nz\n" + publicSSH(everybody().alice)), "c": nil,
	})
	if err == nil {
		t.Fatal("no error")
	}
	at := -1
	for _, want := range []string{"a:2: ", "b:1: ", "b:3: ", "c: holds no key"} {
		i := strings.Index(err.Error(), want)
		if i <= at {
			t.Errorf("%q is missing or out of order in: %v", want, err)
		}
		at = i
	}
	if _, err := verify.ParseKeys(nil); err == nil || !strings.Contains(err.Error(), "the Secret is empty") {
		t.Errorf("got %v", err)
	}
}

func TestDigest(t *testing.T) {
	secret := allowed(t)
	first := must(verify.ParseKeys(secret)).Digest()
	if !strings.HasPrefix(first, "sha256:") || must(verify.ParseKeys(maps.Clone(secret))).Digest() != first {
		t.Errorf("the same Secret has the digests %s and another", first)
	}
	seen := []string{first, verify.Keys{}.Digest()}
	for name, change := range map[string]func(map[string][]byte){
		"a key more": func(s map[string][]byte) {
			s["signers"] = append(slices.Clone(s["signers"]), publicSSH(everybody().mallory)...)
		},
		"a value less": func(s map[string][]byte) { delete(s, "pgp.asc") },
		"a line with an end": func(s map[string][]byte) {
			s["signers"] = bytes.Replace(s["signers"], []byte(`file,git"`), []byte(`file,git",valid-before="20300101"`),
				1)
		},
		"another name": func(s map[string][]byte) {
			s["signers"] = bytes.Replace(s["signers"], []byte("alice"), []byte("alina"), 1)
		},
		"a value over another": func(s map[string][]byte) { s["pgp.asc2"] = s["pgp.asc"]; delete(s, "pgp.asc") },
	} {
		other := maps.Clone(secret)
		change(other)
		got := must(verify.ParseKeys(other)).Digest()
		if slices.Contains(seen, got) {
			t.Errorf("%s: the digest %s was there before", name, got)
		}
		seen = append(seen, got)
	}
}

// FuzzCommit: whatever is pushed, the answer is a signer or a fault, and never a signer for what no allowed key signed.
func FuzzCommit(f *testing.F) {
	for _, c := range commitCases() {
		f.Add([]byte(c.raw))
	}
	keys := must(
		verify.ParseKeys(map[string][]byte{"k": []byte(publicSSH(everybody().mallory) + "\n" +
			publicPGP(everybody().eve))}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		signer, err := verify.Commit(raw, keys, now)
		if (signer == "") == (err == nil) {
			t.Errorf("got %q, %v", signer, err)
		}
		var fa *fault.Error
		if err != nil && !errors.As(err, &fa) {
			t.Errorf("no fault: %v", err)
		}
		if err != nil {
			return
		}
		// These two signed nothing but the plain commit.
		from, to := bytes.Index(raw, []byte("\ngpgsig ")), bytes.Index(raw, []byte("\n\n"))
		if from < 0 || string(raw[:from])+string(raw[to:]) != plain {
			t.Errorf("%s signed %q?", signer, raw)
		}
	})
}

// FuzzParseKeys: whatever the Secret holds, the answer is keys with a digest or a fault of one kind.
func FuzzParseKeys(f *testing.F) {
	for _, v := range allowed(f) {
		f.Add(v)
	}
	f.Add([]byte(`a@b namespaces="git",valid-before="20250101" ssh-ed25519 AAAA`))
	f.Add([]byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDM=\n-----END PGP PUBLIC KEY BLOCK-----"))
	commit := []byte(bySSH(plain, everybody().alice))
	f.Fuzz(func(t *testing.T, value []byte) {
		keys, err := verify.ParseKeys(map[string][]byte{"k": value})
		var fa *fault.Error
		if (err == nil) != (keys.Digest() != "") || err != nil && !errors.As(err, &fa) {
			t.Errorf("got digest %q, %v", keys.Digest(), err)
		}
		_, _ = verify.Commit(commit, keys, now)
	})
}
