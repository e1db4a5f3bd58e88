package sops

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// keyFields are the numbers of the kinds of keys in the message Key.
var keyFields = map[string]int{
	"kms": 1, "pgp": 2, "gcp_kms": 3, "azure_kv": 4, "hc_vault": 5, "age": 6, "hckms": 7,
}

// message has fields that are texts and messages, with numbers below 16.
type message []byte

// add leaves out an empty text, as protobuf does.
func (m message) add(number int, value string) message {
	if value == "" {
		return m
	}
	m = append(m, byte(number<<3|2))
	return append(binary.AppendUvarint(m, uint64(len(value))), value...)
}

func encodeRequest(r document.Recipient) ([]byte, error) {
	number := keyFields[r.Kind]
	if number == 0 {
		return nil, errors.New("the key service has no keys of this kind")
	}
	key := r.Key()
	var of message
	for i, field := range key.Fields {
		of = of.add(i+1, field)
	}
	of = of.add(2, key.Role)
	for _, name := range slices.Sorted(maps.Keys(key.Context)) {
		of = of.add(3, string(message{}.add(1, name).add(2, key.Context[name])))
	}
	of = of.add(4, key.Profile)
	return message{}.add(1, string(message{}.add(number, string(of)))).add(2, r.Encrypted), nil
}

var errMalformed = errors.New("its answer is malformed")

// decodeAnswer returns the plaintext of DecryptResponse, and ignores all else.
func decodeAnswer(m []byte) (plaintext []byte, err error) {
	for len(m) > 0 {
		tag, n := binary.Uvarint(m)
		if n <= 0 || tag&7 != 2 {
			return nil, errMalformed
		}
		size, k := binary.Uvarint(m[n:])
		if k <= 0 || size > uint64(len(m)-n-k) {
			return nil, errMalformed
		}
		m = m[n+k:]
		if tag>>3 == 1 {
			plaintext = m[:size]
		}
		m = m[size:]
	}
	return plaintext, nil
}
