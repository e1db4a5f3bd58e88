package classify

import (
	"slices"
	"strings"
)

// Certainty says how certain it is that the value of a key is a secret.
type Certainty int

const (
	// NotSecret: the key does not name a secret.
	NotSecret Certainty = iota
	// IfRandom: the value is a secret if it looks random.
	IfRandom
	// UnlessName: the value is a secret unless it is a name.
	UnlessName
	// Always: the value is a secret.
	Always
)

// strongWords are words that name a secret. Words that end in one of strongEndings name a secret, too.
var strongWords = WordSet("password passwd passphrase passwort passcode pwd pass psk authtok pw bindpw rootpw " +
	"rootbindpw userpw adminpw masterauth sharedsecret wpapsk")

var strongEndings = []string{
	"password", "passwd", "passphrase", "passcode", "authtok", "requirepass", "authpass",
	"userpass", "dbpass", "mypass", "rootpass", "adminpass", "keypass", "storepass", "becomepass", "sshpass", "pgpass",
	"bindpw", "rootpw",
}

// plainWords are words that name a secret or a reference to a secret.
var plainWords = WordSet("secret token credential credentials apikey authkey secretkey privatekey masterkey " +
	"encryptionkey sessionkey jwt otp totp cookie bearer authtoken accesstoken cak pin passwords tokens " +
	"community appkey")

var plainEndings = []string{
	"secret", "token", "apikey", "authkey", "secretkey", "privatekey", "accountkey",
	"sharedkey", "presharedkey", "licensekey",
}

// keyOwners are words before the word key if the key is a secret: encryption key.
var keyOwners = WordSet("api auth private secret preshared shared encryption encrypt signing session master account " +
	"app license storage unseal service integration routing activation join hmac symm wep wg wireguard pre tsig rndc " +
	"ingest write admin application aes wpa crypt cipher certificate recovery subscription instrumentation insert " +
	"deployment gossip function")

// randomWords are words that name a secret only if the value looks random.
var randomWords = WordSet("key auth encrypt access sas cred creds pkcs12 keydata seed keys authorization")

// metaWords are words after a word for a secret, which describe the secret: password file, token expiry.
var metaWords = WordSet(
	`file files filename path paths dir directory folder name names ref refs reference id ids url uri urls endpoint endpoints host
	type types kind policy policies length len min max size sizes ttl expiry expires expire expiration lifetime duration timeout interval period age days hours
	minutes seconds rotation rotate enabled enable disabled required require allowed authentication authenticator method methods mode format source sources provider
	providers plugin plugins backend manager store mount mounts version versions algorithm algorithms alg cipher ciphers encryption hashing prompt prompts field fields
	header headers env variable command cmd helper script callback user users username owner group role roles scope scopes audience audiences aud issuer
	claim claims review reviewer webhook bootstrap bootstrapping controller limit limits attempts retries retry history strength complexity quality
	check checks class generator reset change changed warn inactive lock locked namespace selector label labels annotation annotations cert certs crt
	certificate ca service server servers template engine bits prefix suffix regex pattern position index num number count cache text description comment title
	help message usage mac request requests exchange grant flow feature projection based less param params behavior behaviour stdin fd
	socket last delay grace attribute attributes attr filter location loc address budget cleaner cleaning signer revocation leeway driver drivers support set dn
	hint at obtained created issued updated since until date time validity valid mgmt management connector failures failure failed errors error total
	success rate store_type hint ui color secure httponly samesite domain jar`)

// notKeys are words that look like words for secrets, but are not.
var notKeys = WordSet("bypass compass trespass overpass underpass encompass surpass nopass nopasswd signingkey")

// otherWords are words that change the meaning of the word for a secret after them.
var otherWords = WordSet("public pub max min num count no use allow deny permit require enable disable automount " +
	"cancel syntax design skip fido webauthn unix publishable import load nopasswd")

// WordSet returns the words of a list.
func WordSet(list string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(list) {
		out[w] = true
	}
	return out
}

// keyWords splits a key at punctuation and where its case changes, in lower case: DB_PASS1, dbPass.
func keyWords(key string) (words []string) {
	start := 0
	flush := func(end int) {
		if end > start {
			words = append(words, LowerASCII(key[start:end]))
		}
		start = end
	}
	for i := 0; i < len(key); i++ {
		c := key[i]
		switch {
		case !IsWordByte(c) || c == '_':
			flush(i)
			start = i + 1
		case i > start && isUpper(c) && (!isUpper(key[i-1]) || i+1 < len(key) && isLower(key[i+1]) &&
			isUpper(key[i-1])):
			flush(i)
		case i > start && isDigit(c) != isDigit(key[i-1]):
			flush(i)
		}
	}
	flush(len(key))
	return words
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// Key returns how certain it is that the value of a key is a secret. The last word for a secret in the key decides.
func Key(key string) Certainty {
	if len(key) > 120 {
		key = key[len(key)-120:]
	}
	words := keyWords(key)
	for i := len(words) - 1; i >= 0; i-- {
		if c := word(words, i); c != NotSecret {
			return inContext(c, words, i)
		}
	}
	return NotSecret
}

// inContext returns the certainty of a key with the certainty c of word i, by the words around it.
func inContext(c Certainty, words []string, i int) Certainty {
	rest := words[i+1:]
	if c == Always && len(rest) > 0 && slices.Contains([]string{"hash", "salted"}, rest[0]) {
		rest = rest[1:]
	}
	switch {
	case len(rest) == 1 && (rest[0] == "name" && words[i] == "token" || rest[0] == "id" && words[i] == "secret"):
		return IfRandom // Some programs use this word for the secret.
	case containsAnyOf(metaWords, rest), containsAnyOf(otherWords, words[:i]):
		return NotSecret
	case c == IfRandom && len(rest) > 0 && !allDigits(rest):
		return NotSecret
	}
	return c
}

func containsAnyOf(set map[string]bool, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return set[w] })
}

func allDigits(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !isDigit(w[0]) })
}

func hasEnding(w string, endings []string) bool {
	return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(w, e) })
}

// notSecretPairs are pairs of words that name no secret, although the second word alone does.
var notSecretPairs = map[[2]string]bool{{"by", "pass"}: true, {"last", "token"}: true}

// keyPairs are pairs of words that name a secret together.
var keyPairs = map[[2]string]bool{{"key", "base"}: true, {"key", "data"}: true}

// publicOwners are words before the words key and keys if these name no secret.
var publicOwners = WordSet("public ssh authorized host gpg pgp pub site trusted sort cache partition")

// word returns the certainty of word i alone, with the word before it.
func word(words []string, i int) Certainty {
	w, before := words[i], ""
	if i > 0 {
		before = words[i-1]
	}
	switch {
	case notKeys[w], notSecretPairs[[2]string{before, w}]:
		return NotSecret
	case strongWords[w], strings.HasSuffix(w, "pass"), hasEnding(w, strongEndings):
		return Always
	case w == "key" && keyOwners[before], w == "kbdf", plainWords[w], hasEnding(w, plainEndings),
		keyPairs[[2]string{before, w}]:
		return UnlessName
	case strings.HasSuffix(w, "key") && keyOwners[strings.TrimSuffix(w, "key")]:
		return UnlessName
	case (w == "key" || w == "keys") && publicOwners[before]:
		return NotSecret
	case randomWords[w]:
		return IfRandom
	}
	return NotSecret
}
