package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// nonceSize is that of SOPS. Others are read too, because the file names its nonce.
const nonceSize = 32

var sealed = regexp.MustCompile(`^ENC\[AES256_GCM,data:(.+),iv:(.+),tag:(.+),type:(.+)\]$`)

// open decrypts one value. The additional data binds it to its place in the file.
func open(text string, key []byte, additional string) (any, error) {
	if text == "" {
		return "", nil
	}
	m := sealed.FindStringSubmatch(text)
	if m == nil {
		return nil, errors.New("it is not in the format of SOPS")
	}
	var parts [3][]byte
	for i := range parts {
		var err error
		if parts[i], err = base64.StdEncoding.DecodeString(m[i+1]); err != nil {
			return nil, errors.New("it is truncated or changed")
		}
	}
	gcm, err := newGCM(key, len(parts[1]))
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, parts[1], append(parts[0], parts[2]...), []byte(additional))
	if err != nil {
		return nil, errors.New("it was changed, moved from another place, or encrypted with another data key")
	}
	return typed(string(plain), m[4])
}

func newGCM(key []byte, nonce int) (cipher.AEAD, error) {
	if len(key) != 32 || nonce == 0 {
		return nil, errors.New("the data key or the nonce has a wrong size")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithNonceSize(block, nonce)
}

// typed has errors that do not contain the value.
func typed(plain, kind string) (v any, err error) {
	switch kind {
	case "str", "bytes":
		return plain, nil
	case "int":
		v, err = strconv.Atoi(plain)
	case "float":
		v, err = strconv.ParseFloat(plain, 64)
	case "bool":
		v, err = strconv.ParseBool(plain)
	case "time":
		var at time.Time
		err = at.UnmarshalText([]byte(plain))
		v = at
	case "comment":
		return document.Comment{Text: plain}, nil
	default:
		return nil, fmt.Errorf("its type %q is unknown", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("it is not of its type %q", kind)
	}
	return v, nil
}

func (w Writer) seal(v any, key []byte, additional string) (string, error) {
	kind := ""
	switch v := v.(type) {
	case string:
		kind = "str"
		if v == "" {
			return "", nil
		}
	case int:
		kind = "int"
	case float64:
		kind = "float"
	case bool:
		kind = "bool"
	case time.Time:
		kind = "time"
	case document.Comment:
		kind = "comment"
		if v.Text == "" {
			return "", nil
		}
	}
	plain, err := plainText(v)
	if err != nil {
		return "", err
	}
	gcm, err := newGCM(key, nonceSize)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, nonceSize)
	if _, err := io.ReadFull(w.Random, nonce); err != nil {
		return "", err
	}
	out := gcm.Seal(nil, nonce, plain, []byte(additional))
	cut := len(out) - gcm.Overhead()
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:%s]", encode(out[:cut]), encode(nonce),
		encode(out[cut:]), kind), nil
}

// plainText returns what SOPS encrypts and authenticates.
func plainText(v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return []byte(v), nil
	case int:
		return []byte(strconv.Itoa(v)), nil
	case float64:
		return []byte(strconv.FormatFloat(v, 'f', -1, 64)), nil
	case bool:
		if v {
			return []byte("True"), nil
		}
		return []byte("False"), nil
	case time.Time:
		return v.MarshalText()
	case document.Comment:
		return []byte(v.Text), nil
	}
	return nil, fmt.Errorf("a value of type %T cannot be encrypted", v)
}
