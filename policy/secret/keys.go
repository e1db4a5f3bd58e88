package secret

import (
	"slices"
	"strings"
)

// weight says how much a key tells of its value.
type weight int

const (
	// notSecret keys have any value.
	notSecret weight = iota
	// opaqueSecret keys have a secret if the value looks like random text.
	opaqueSecret
	// wordSecret keys have a secret unless the value is a name.
	wordSecret
	// strongSecret keys have a secret whatever it looks like.
	strongSecret
)

// strongWords name a secret; so do words that end in one of strongEndings.
var strongWords = wordSet("password passwd passphrase passwort passcode pwd pass psk authtok pw bindpw rootpw rootbindpw userpw adminpw masterauth sharedsecret wpapsk")

var strongEndings = []string{"password", "passwd", "passphrase", "passcode", "authtok", "requirepass", "authpass", "userpass", "dbpass", "mypass", "rootpass", "adminpass", "keypass", "storepass", "becomepass", "sshpass", "pgpass", "bindpw", "rootpw"}

// plainWords name a secret or a reference to one.
var plainWords = wordSet("secret token credential credentials apikey authkey secretkey privatekey masterkey encryptionkey sessionkey jwt otp totp cookie bearer authtoken accesstoken cak pin passwords tokens community appkey")

var plainEndings = []string{"secret", "token", "apikey", "authkey", "secretkey", "privatekey", "accountkey", "sharedkey", "presharedkey", "licensekey"}

// keyOwners stand before the word key where it names a secret: encryption key.
var keyOwners = wordSet("api auth private secret preshared shared encryption encrypt signing session master account app license storage unseal service integration routing activation join hmac symm wep wg wireguard pre tsig rndc ingest write admin application aes wpa crypt cipher certificate recovery subscription instrumentation insert deployment gossip function")

// opaqueWords name a secret only where the value looks like one.
var opaqueWords = wordSet("key auth encrypt access sas cred creds pkcs12 keydata seed keys authorization")

// metaWords behind a secret word make it a word about the secret: password file, token expiry.
var metaWords = wordSet(`file files filename path paths dir directory folder name names ref refs reference id ids url uri urls endpoint endpoints host
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

// notKeys only look like words for secrets.
var notKeys = wordSet("bypass compass trespass overpass underpass encompass surpass nopass nopasswd signingkey")

// otherWords before a secret word make it something else.
var otherWords = wordSet("public pub max min num count no use allow deny permit require enable disable automount cancel syntax design skip fido webauthn unix publishable import load nopasswd")

func wordSet(list string) map[string]bool {
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
			words = append(words, lowerASCII(key[start:end]))
		}
		start = end
	}
	for i := 0; i < len(key); i++ {
		c := key[i]
		switch {
		case !isWordByte(c) || c == '_':
			flush(i)
			start = i + 1
		case i > start && isUpper(c) && (!isUpper(key[i-1]) || i+1 < len(key) && isLower(key[i+1]) && isUpper(key[i-1])):
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

// weigh says how much a key tells of its value.
func weigh(key string) weight {
	if len(key) > 120 {
		key = key[len(key)-120:]
	}
	words := keyWords(key)
	for i := len(words) - 1; i >= 0; i-- {
		w := weighWord(words, i)
		if w == notSecret {
			continue
		}
		rest := words[i+1:]
		if w == strongSecret && len(rest) > 0 && slices.Contains([]string{"hash", "salted"}, rest[0]) {
			rest = rest[1:]
		}
		if len(rest) == 1 && (rest[0] == "name" && words[i] == "token" || rest[0] == "id" && words[i] == "secret") {
			return opaqueSecret // some of them are the secret
		}
		if slices.ContainsFunc(rest, func(r string) bool { return metaWords[r] }) {
			return notSecret
		}
		if slices.ContainsFunc(words[:i], func(r string) bool { return otherWords[r] }) {
			return notSecret
		}
		if w == opaqueSecret && len(rest) > 0 && !allDigits(rest) {
			return notSecret
		}
		return w
	}
	return notSecret
}

func allDigits(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !isDigit(w[0]) })
}

func weighWord(words []string, i int) weight {
	w := words[i]
	before := ""
	if i > 0 {
		before = words[i-1]
	}
	hasEnding := func(list []string) bool {
		return slices.ContainsFunc(list, func(e string) bool { return strings.HasSuffix(w, e) })
	}
	switch {
	case notKeys[w], w == "pass" && before == "by", w == "token" && before == "last":
		return notSecret
	case strongWords[w] || strings.HasSuffix(w, "pass") || hasEnding(strongEndings):
		return strongSecret
	case w == "key" && keyOwners[before], w == "base" && before == "key", w == "kbdf":
		return wordSecret
	case plainWords[w] || hasEnding(plainEndings):
		return wordSecret
	case strings.HasSuffix(w, "key") && keyOwners[strings.TrimSuffix(w, "key")]:
		return wordSecret
	case w == "data" && before == "key":
		return wordSecret
	case (w == "key" || w == "keys") && slices.Contains([]string{"public", "ssh", "authorized", "host", "gpg", "pgp", "pub", "site", "trusted", "sort", "cache", "partition"}, before):
		return notSecret
	case opaqueWords[w]:
		return opaqueSecret
	}
	return notSecret
}
