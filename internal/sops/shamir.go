package sops

import (
	"errors"
	"io"
)

// multiply multiplies two elements of the field GF(2^8) with the polynomial of AES, in constant time.
func multiply(a, b byte) (product byte) {
	for i := range 8 {
		product ^= a & -(b >> i & 1)
		a = a<<1 ^ 0x1b&-(a>>7)
	}
	return product
}

// invert returns a^254, which is the inverse of a.
func invert(a byte) byte {
	out := byte(1)
	for range 254 {
		out = multiply(out, a)
	}
	return out
}

// combine recovers a secret from its parts by interpolation at zero. The last byte of a part is its place.
func combine(parts [][]byte) ([]byte, error) {
	size := len(parts[0])
	seen := map[byte]bool{}
	for _, p := range parts {
		if len(p) != size || size < 2 || p[size-1] == 0 || seen[p[size-1]] {
			return nil, errors.New("the parts of the data key do not belong together")
		}
		seen[p[size-1]] = true
	}
	out := make([]byte, size-1)
	for i, p := range parts {
		weight := byte(1)
		for j, q := range parts {
			if i != j {
				weight = multiply(weight, multiply(q[size-1], invert(q[size-1]^p[size-1])))
			}
		}
		for k := range out {
			out[k] ^= multiply(weight, p[k])
		}
	}
	return out, nil
}

// divide divides a secret into parts, any threshold of which recover it.
func divide(random io.Reader, secret []byte, parts, threshold int) ([][]byte, error) {
	if threshold < 2 || threshold > parts || parts > 255 {
		return nil, errors.New("the threshold of key groups must be at least 2, and at most the number of groups")
	}
	out := make([][]byte, parts)
	for i := range out {
		out[i] = append(make([]byte, len(secret)), byte(i+1))
	}
	coefficients := make([]byte, threshold-1)
	for k, constant := range secret {
		if _, err := io.ReadFull(random, coefficients); err != nil {
			return nil, err
		}
		for _, part := range out {
			x := part[len(secret)]
			value := byte(0)
			for _, c := range coefficients {
				value = multiply(value^c, x)
			}
			part[k] = value ^ constant
		}
	}
	return out, nil
}
