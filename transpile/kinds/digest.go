package kinds

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// ObjectDigest returns the sha256 of an object's JSON, as `sha256:<hex>`. Equal objects have equal digests, because
// Go's JSON encoder sorts the keys of maps.
func ObjectDigest(object any) (string, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("writing the object as JSON: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
